from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from omgm.__main__ import main
from tests.fakes.downloads import FILES, downloaded, fetch_command, missing_reasons, write_kb_of
from tests.fakes.processes import kill_omgm_when
from tests.fakes.web import serve_web


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    with serve_web(dict(FILES)) as web:
        web.files["twin.jpg"] = FILES["7.jpg"]
        names = [f"good/{number}.jpg" for number in range(30)] + ["good/twin.jpg", "once500/31.jpg", "busy/32.jpg"]
        names += ["missing/33.jpg", "html/34.jpg", "good/cut.png", "oncereset/35.jpg", "moved/36.jpg"]
        kb = write_kb_of([web.url(name) for name in names], tmp_path / "kb.json")
        assert main(fetch_command(web, kb, tmp_path / "whole")) == 0
        undisturbed = downloaded(tmp_path / "whole")
        assert len(undisturbed) == len(names) - 3

        web.forget()
        web.pause = 0.02
        killed = tmp_path / "killed"

        def has(images: int) -> bool:
            return len(downloaded(killed)) >= images

        for stop_at in (3, 17):
            kill_omgm_when(partial(has, stop_at), fetch_command(web, kb, killed))
        found = downloaded(killed)
        assert 17 <= len(found) < len(undisturbed)
        assert found.items() <= undisturbed.items()  # nothing half-written
        assert main(fetch_command(web, kb, killed)) == 0
        assert downloaded(killed) == undisturbed
        assert list((killed / ".omgm/partial").iterdir()) == []
        assert missing_reasons(killed) == missing_reasons(tmp_path / "whole")
