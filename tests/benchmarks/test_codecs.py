from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import codecs


def test_a_row_per_codec_and_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--codecs", "float16", "pool4+int4", "--sections", "20", "45", "--length", "16", "--rows", "50"]
    codecs.main([*sizes, "--rounds", "1", "--out", str(tmp_path / "out.json")])
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(row["codec"], row["sections"], row["bytes_per_section"]) for row in rows] == [
        ("float16", 20, 1024),
        ("pool4+int4", 20, 40),
        ("float16", 45, 1024),
        ("pool4+int4", 45, 40),
    ]
    assert all(row["unpack_ms"] > 0 and row["max_sim_ms"] > 0 for row in rows)
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]) == 2 + 4


def test_spans_have_as_many_sections_as_asked() -> None:
    spans = codecs.make_spans(45, 50, 0)
    assert sorted(map(len, spans)) == [2] * 15 + [3] * 5
    assert all(0 <= span.start <= span.stop <= 50 for span in spans)


def test_wrong_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        codecs.main(["--rows", "10"])
    assert "--rows at least --sections" in capsys.readouterr().err
