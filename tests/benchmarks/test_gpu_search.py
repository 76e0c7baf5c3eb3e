from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu_search import main, overlap


def test_overlap_is_the_share_of_what_was_expected() -> None:
    assert overlap(np.array([[3, 1, 9], [5, -1, -1]]), np.array([[1, 2, 3], [4, 5, 6]])) == 3 / 6


def test_every_search_finds_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--vectors", "300", "--length", "32", "--batches", "1", "3", "--runs", "1"]
    main([*sizes, "--out", str(tmp_path / "a/search.json"), "--lines", str(tmp_path / "lines.jsonl")])
    report = json.loads((tmp_path / "a/search.json").read_text())
    assert [(row["part"], row["batch"]) for row in report["rows"]][:2] == [("torch", 1), ("torch", 3)]
    assert all(row["overlap"] >= 0.95 and row["difference"] < 1e-3 for row in report["rows"])
    assert all(row["read_mb"] == round(300 * 32 * 2 / 1e6, 2) for row in report["rows"])
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["benchmark"] for line in lines] == ["search"] * len(report["rows"])
    assert capsys.readouterr().out.count("\n|") == 2 + len(lines)
