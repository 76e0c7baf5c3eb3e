from __future__ import annotations

import json
from pathlib import Path

from tests.indexes.live import kills


def test_nothing_is_lost_by_kills(tmp_path: Path) -> None:
    """The short form of `kills.py`: real processes, killed with SIGKILL at random moments."""
    kills.main(["--kills", "4", "--out", str(tmp_path / "kills.json")])
    report = json.loads((tmp_path / "kills.json").read_text())
    updates, builds = report["updates"], report["builds"]
    assert updates["kills"] == builds["kills"] == 4
    assert updates["acknowledged"] > 0
    assert [updates[key] for key in ("lost", "corrupt", "differing")] == [0, 0, 0]
    assert [builds[key] for key in ("corrupt", "differing")] == [0, 0]
