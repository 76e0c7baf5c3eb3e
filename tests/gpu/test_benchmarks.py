"""The benchmarks for a GPU run on one, so that a day with a GPU is not spent on their mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gpu
from tests.gpu.conftest import Device


def test_models(cuda: Device, tmp_path: Path) -> None:
    assert gpu.main(["--size", "tiny", "--batches", "3", "--runs", "1", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["machine"]["capability"]
    parts = {row["part"] for row in report["rows"] if row["batch"] == 3}
    expected = {"1 image tower", "1 image tower, graph", "2 tower and Q-Former, graph"}
    expected |= {"retrieval, graphs", "retrieval, graphs, 2 in flight"}
    if "fp8_tflops" in report["peaks"]:
        expected |= {"1 image tower, FP8", "1 image tower, FP8, graph", "retrieval, FP8, graphs, 2 in flight"}
    assert expected < parts
    searches = [row for row in report["rows"] if row["part"] == "1 search, FAISS"]
    assert all(row["overlap"] >= 0.95 for row in searches)


@pytest.mark.filterwarnings("ignore")  # the profiler's own
def test_trace(cuda: Device, tmp_path: Path) -> None:
    assert gpu.main(["--size", "tiny", "--batches", "2", "--trace", "--graphs", "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"kernels.md", "trace.json.gz"}
