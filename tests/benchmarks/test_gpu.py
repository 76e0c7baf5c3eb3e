from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.device_timer import DeviceTimer
from benchmarks.full_size import PAPER, TINY, SyntheticIndex, queries
from benchmarks.gpu import BATCHES, idle_time, main, overlap
from benchmarks.gpu_day import steps


def image_flops(size: int, patch: int, width: int, layers: int, mlp: int, out: int) -> int:
    """Two FLOPs per multiply-add: patches; per layer query, key, value, attention, output, MLP; then a projection."""
    cells = (size // patch) ** 2
    tokens = cells + 1
    layer = tokens * width * 3 * width + 2 * tokens * tokens * width + tokens * width * width + 2 * tokens * width * mlp
    return 2 * (cells * 3 * patch * patch * width + layers * layer + width * out)


def test_the_published_size_costs_what_is_published() -> None:
    vision, encoder = PAPER.encoder.vision, PAPER.encoder
    flops = image_flops(224, 14, vision.width, vision.layers, vision.mlp_width, encoder.projection_dim)
    assert flops == pytest.approx(3.9e12, rel=0.01)  # "one image is about 3.9 TFLOP"


def test_the_bound_of_a_part_is_its_flops_or_its_bytes() -> None:
    timer = DeviceTimer("cpu", 1)
    timer.peak_tflops, timer.peak_gbps = 1000, 2000
    tower = {"gflop": 16_000, "read_mb": 2_000}  # 16 TFLOP at 800 TFLOP/s: 20 ms; 2 GB at 2 TB/s: 1 ms
    scan = {"gflop": 80, "read_mb": 5_000}  # 0.1 ms; 2.5 ms
    assert timer.bound([tower, scan]) == pytest.approx(22.5)
    timer.peak_fp8_tflops = 2000
    assert timer.bound([tower | {"fp8_gflop": 12_000}, scan]) == pytest.approx(5 + 7.5 + 2.5)
    assert "16" in BATCHES.split(",")


def test_overlap_is_the_share_of_what_was_expected() -> None:
    assert overlap(np.array([[3, 1, 9], [5, -1, -1]]), np.array([[1, 2, 3], [4, 5, 6]])) == 3 / 6


def test_the_time_without_a_kernel_is_per_batch() -> None:
    kernels = [(8.0, 10.0), (0.0, 2.0), (1.0, 5.0), (4.0, 5.0)]  # the third and fourth run beside others
    assert idle_time(kernels, batches=2) == {"span_ms": 5, "idle_ms": 1.5, "kernels": 2}


def test_every_part_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [models] = steps(2, tmp_path, tmp_path, False, "tiny")  # of the day with a GPU
    assert models.command[:2] == ("-m", "benchmarks.gpu")
    assert main(models.command[2:]) == 0
    report = json.loads((tmp_path / "models" / "gpu.json").read_text())
    first, *others = (json.loads(line) for line in (tmp_path / "gpu-day.jsonl").read_text().splitlines())
    assert first["peaks"] == report["peaks"]
    assert others == [{"benchmark": "gpu", **row} for row in report["rows"]]
    rows = {re.sub(r", \d+ sections", "", row["part"]): row for row in report["rows"] if row["batch"] == 2}
    assert list(rows) == [
        "1 images to the device",
        "1 image tower",
        "1 search",
        "2 tower and Q-Former",
        "2 MaxSim",
        "3 cross-encoder",
        "retrieval",
        "retrieval, 1 in flight",
        "1 image tower, FP8",
        "retrieval, FP8",
        "retrieval, FP8, 1 in flight",
    ]
    assert all(row["p50_ms"] > 0 for row in rows.values())
    vision = TINY.encoder.vision
    expected = 2 * image_flops(28, 14, vision.width, vision.layers, vision.mlp_width, TINY.encoder.projection_dim) / 1e9
    assert rows["1 image tower"]["gflop"] == pytest.approx(expected, abs=0.005)
    values = sum(2 * (3 * w + w + 2 * m) * w for w, m in [(vision.width, vision.mlp_width)])  # of two blocks
    saved = rows["1 image tower"]["read_mb"] - rows["1 image tower, FP8"]["read_mb"]
    assert saved == pytest.approx((4 - 1) * values / 1e6, rel=0.2)  # from float32; scales come on top
    assert rows["1 search"]["read_mb"] == pytest.approx(2_000 * 48 * 2 / 1e6, abs=0.005)  # float16
    whole = rows["retrieval"]
    assert whole["of_bound"] == pytest.approx(
        whole["queries_per_s"] / whole["bound_queries_per_s"], rel=0.05, abs=0.001
    )
    table = (tmp_path / "models" / "gpu.md").read_text()
    assert table in capsys.readouterr().out and table.count("\n|") == 2 + len(report["rows"])


def test_entities_are_always_the_same_and_sections_lie_in_the_store() -> None:
    index = SyntheticIndex(TINY, (32, 8), "cpu")
    assert index.entity(7) == SyntheticIndex(TINY, (32, 8), "cpu").entity(7)
    spans = [index.section_rows(row) for row in range(200)]
    assert {len(span) for span in spans} == set(range(1, TINY.most_sections + 1))
    assert all(span.start >= 0 and span.stop <= TINY.stored for span in spans)
    assert len(index.entity(7).sections) == len(index.section_rows(7))
    assert queries(2)[1].image.size == (640, 480)
