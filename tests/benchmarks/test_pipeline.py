from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import pipeline
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer


def test_working_ahead_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, fake in (("encoder", FakeEncoder), ("fusion", FakeFusion), ("summarizer", FakeSummarizer)):
        monkeypatch.setattr(pipeline, f"build_{name}", lambda profile, fake=fake: fake())
    out = tmp_path / "artifacts" / "pipeline.json"
    arguments = ["--entities", "6", "--rounds", "1", "--busy-entities", "40", "--out", str(out)]
    report = pipeline.main(arguments)
    assert json.loads(out.read_text()) == report == json.loads(capsys.readouterr().out)
    assert report["serial"]["same_bytes"]
    assert report["serial"]["build_s"].keys() == {"ahead", "serial", "one_by_one"}
    busy = report["busy"]
    # two batches of texts; entities 0, 10, 20 and 30 have an image, so one batch of images and one of sections
    assert busy["ahead"]["batches"] == busy["serial"]["batches"] == 4
    assert busy["ahead"]["busy"] > 0
