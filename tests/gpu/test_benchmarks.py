"""The benchmarks for a GPU run on one, so that a day with a GPU is not spent on their mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from benchmarks import gpu
from retriever.models import packed_roberta
from tests.gpu.conftest import Device


@pytest.fixture(autouse=True)
def few_graphs() -> Iterator[None]:
    """Captures graphs of few tokens, since a pretended device takes seconds for more."""
    with mock.patch.object(packed_roberta, "TOTALS", range(512, 1025, 512)), mock.patch.object(gpu, "TOTALS", (1024,)):
        yield


@pytest.mark.slow
def test_models(cuda: Device, tmp_path: Path) -> None:
    assert gpu.main(["--size", "tiny", "--batches", "3", "--runs", "1", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["machine"]["capability"]
    parts = {row["part"] for row in report["rows"] if row["batch"] == 3}
    expected = {"1 image tower", "1 image tower, graphs", "2 tower and Q-Former, graphs"}
    expected |= {"retrieval, graphs", "retrieval, graphs, 2 in flight"}
    expected |= {"retrieval, short passes, graphs"}
    if "fp8_tflops" in report["peaks"]:
        expected |= {"1 image tower, FP8", "1 image tower, FP8, graphs", "retrieval, FP8, graphs, 2 in flight"}
    assert expected < parts
    searches = [row for row in report["rows"] if row["part"] == "1 search, FAISS"]
    assert all(row["overlap"] >= 0.95 for row in searches)


@pytest.mark.filterwarnings("ignore")  # the profiler's own
def test_trace(cuda: Device, tmp_path: Path) -> None:
    assert gpu.main(["--size", "tiny", "--batches", "1,2", "--trace", "--out", str(tmp_path)]) == 0
    files = {f"{name}-{batch}.{kind}" for name, kind in [("kernels", "md"), ("trace", "json.gz")] for batch in (1, 2)}
    assert {file.name for file in tmp_path.iterdir()} == files
