"""The benchmarks for a GPU run on one, so that a day with a GPU is not spent on their mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, gpu_search, gpu_trace, maxsim
from tests.gpu.conftest import Card, Device


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


def test_entity_search(cuda: Device, tmp_path: Path) -> None:
    sizes = ["--vectors", "3000", "--length", "32", "--batches", "1", "3", "--runs", "1"]
    gpu_search.main([*sizes, "--out", str(tmp_path / "search.json")])
    rows = json.loads((tmp_path / "search.json").read_text())["rows"]
    assert all(row["overlap"] >= 0.95 and row["difference"] < 2e-3 for row in rows)


def test_maxsim(cuda: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    if not isinstance(cuda, Card):
        monkeypatch.setattr(maxsim, "copy_bandwidth", lambda _: 1.0)  # a GiB, many times
    sizes = ["--batches", "2", "--lengths", "64", "--rows", "40", "--most", "5", "--sets", "2", "--rounds", "1"]
    maxsim.main([*sizes, "--device", "cuda", "--out", str(tmp_path / "maxsim.json")])
    rows = json.loads((tmp_path / "maxsim.json").read_text())["rows"]
    assert {row["method"] for row in rows} > {"triton, 4 per program", "padded bmm"}
    assert all(row["difference"] < 1e-3 for row in rows)


@pytest.mark.filterwarnings("ignore")  # the profiler's own
def test_trace(cuda: Device, tmp_path: Path) -> None:
    options = ["--size", "tiny", "--batch", "2", "--batches", "2", "--graphs"]
    options += ["--fp8"] * gpu.has_fp8("cuda", torch.bfloat16)
    assert gpu_trace.main([*options, "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"kernels.md", "trace.json.gz"}
