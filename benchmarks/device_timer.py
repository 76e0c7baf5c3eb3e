"""Times calls on one device, counts their FLOPs and bytes, and compares both with what the device reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, supported_activities
from torch.utils.flop_counter import FlopCounterMode

from evaluation.metrics import percentile
from retriever.kernels.fp8 import rounded

Row = dict[str, Any]
REACHABLE = 0.8
"""The share of a large square product's rate that a transformer's layers can reach: their products are narrower, and
norms, activation functions and softmax run between them."""
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")
"""How the names of what the host launches begin."""
_WARM_UP = 3


class DeviceTimer:
    """Times calls on one device and compares them with its peak.

    Args:
        device: "cuda" or "cpu".
        runs: Number of timed calls of each part.

    Attributes:
        peak_tflops: TFLOP/s of a large square product.
        peak_gbps: GB/s of a large copy, counting reads and writes.
        peak_fp8_tflops: TFLOP/s of a large square product in FP8, if the device has it.
    """

    def __init__(self, device: str, runs: int) -> None:
        self.device, self.runs = device, runs
        self.peak_tflops = self.peak_gbps = self.peak_fp8_tflops = float("nan")

    def wait(self) -> None:
        """Waits until the device is idle."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def times(self, call: Callable[[], Any]) -> list[float]:
        """Returns the milliseconds of each call after a warm-up."""
        milliseconds = []
        for run in range(-_WARM_UP, self.runs):
            self.wait()
            started = time.perf_counter()
            call()
            self.wait()
            if run >= 0:
                milliseconds.append((time.perf_counter() - started) * 1000)
        return milliseconds

    def row(self, part: str, batch: int, call: Callable[[], Any], moved: int = 0) -> Row:
        """Measures a call: median and 95th percentile, FLOPs and bytes; on a GPU, memory and, of one query, launches.

        Args:
            part: Name of the row.
            batch: Queries per call.
            call: The call.
            moved: Bytes that it must read.
        """
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        times = self.times(call)
        with FlopCounterMode(display=False) as counter:
            call()
        in_fp8 = counter.get_flop_counts().get("Global", {}).get(torch.ops.aten._scaled_mm, 0)
        row = self.timed(part, batch, times, counter.get_total_flops(), in_fp8, moved)
        if batch == 1 and ProfilerActivity.CUDA in supported_activities():
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
                call()
                self.wait()
            row["launches"] = sum(event.name.startswith(LAUNCHES) for event in profiler.events())
        return row

    def timed(
        self, part: str, batch: int, times: Sequence[float], flops: int = 0, in_fp8: int = 0, moved: int = 0
    ) -> Row:
        """Returns the row of a call that took some milliseconds, with its FLOPs and bytes; see `row`."""
        p50 = percentile(times, 50) or float("nan")
        tflops, gbps = flops / p50 / 1e9, moved / p50 / 1e6
        row = {
            "part": part,
            "batch": batch,
            "p50_ms": round(p50, 3),
            "p95_ms": round(percentile(times, 95) or float("nan"), 3),
            "queries_per_s": round(1000 * batch / p50, 1),
            "gflop": round(flops / 1e9, 2),
            "tflops": round(tflops, 2),
            "read_mb": round(moved / 1e6, 2),
            "gbps": round(gbps, 1),
        }
        if in_fp8:
            row["fp8_gflop"] = round(in_fp8 / 1e9, 2)
        if self.device == "cuda":
            row["memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        return row

    def bound(self, parts: Iterable[Row]) -> float:
        """Returns the least milliseconds of parts that run one after another: each by its FLOPs or its bytes."""
        return float(sum(max(self._product_ms(part), part["read_mb"] / self.peak_gbps) for part in parts))

    def _product_ms(self, part: Row) -> float:
        in_fp8 = float(part.get("fp8_gflop", 0))
        times = (float(part["gflop"]) - in_fp8) / self.peak_tflops
        if in_fp8:
            times += in_fp8 / self.peak_fp8_tflops
        return times / REACHABLE

    def find_peaks(self, side: int, copied: int, dtype: torch.dtype) -> Row:
        """Measures the peak with one large matrix product and one large copy, counting reads and writes."""
        a, b = (torch.randn(side, side, device=self.device).to(dtype) for _ in range(2))
        source = torch.empty(copied, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        product = percentile(self.times(lambda: a @ b), 50) or float("nan")
        copy = percentile(self.times(lambda: target.copy_(source)), 50) or float("nan")
        self.peak_tflops, self.peak_gbps = 2 * side**3 / product / 1e9, 2 * copied / copy / 1e6
        peaks = {"matmul_side": side, "tflops": round(self.peak_tflops, 2), "copy_gbps": round(self.peak_gbps, 1)}
        if self.device == "cuda" and torch.cuda.get_device_capability() >= (8, 9):
            (left, rows), (right, columns) = rounded(a), rounded(b)
            multiply = partial(torch._scaled_mm, scale_a=rows, scale_b=columns.t(), out_dtype=torch.bfloat16)
            product = percentile(self.times(lambda: multiply(left, right.t())), 50) or float("nan")
            self.peak_fp8_tflops = 2 * side**3 / product / 1e9
            peaks["fp8_tflops"] = round(self.peak_fp8_tflops, 2)
        return peaks
