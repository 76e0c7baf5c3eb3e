from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import maxsim


def test_every_method_agrees_with_float64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--batches", "2", "--lengths", "24", "--rows", "40", "--entities", "3", "--most", "5"]
    maxsim.main(["--device", "cpu", *sizes, "--sets", "2", "--rounds", "1", "--out", str(tmp_path / "out.json")])
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["command"].startswith("python -m benchmarks.maxsim --device cpu --batches 2")
    assert {row["tokens"] for row in report["rows"]} == {"float32", "float16", "int8"}
    assert {"torch, a product per pair", "padded bmm"} <= {row["method"] for row in report["rows"]}
    assert max(row["difference"] for row in report["rows"]) < 1e-6
    # 2 queries with 3 candidates of 1 to 5 sections; 6 is 2 * 3 * 1
    assert all(6 <= row["sections"] <= 30 for row in report["rows"])
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(report["rows"])


def test_bytes_of_sections() -> None:
    store = maxsim.make_store(3, 768, torch.int8, torch.device("cpu"))
    # 24 KiB and 32 scales of 2 bytes
    assert store.bytes_of(2) == 2 * (24 * 1024 + 64)
    assert maxsim.make_store(3, 768, torch.float16, torch.device("cpu")).bytes_of(1) == 48 * 1024


def test_wrong_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        maxsim.main(["--device", "cpu", "--rows", "10", "--most", "11"])
    assert "--rows at least --most" in capsys.readouterr().err
