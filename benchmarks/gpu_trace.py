"""Traces retrievals of the paper profile: which kernels take the time, and when no kernel runs.

    python -m benchmarks.gpu_trace --out DIR               batch 16 on an 80 GB GPU, with random weights
    python -m benchmarks.gpu_trace --size tiny --out DIR   the same code anywhere

Batches follow each other as in a busy service. On a CPU, operators take the place of kernels. Writes `trace.json.gz`,
for chrome://tracing or https://ui.perfetto.dev, and `kernels.md`: the time of each kernel, the time that no kernel ran,
and the longest gaps with the kernels around them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.frame import arguments, commit, default_device, device_name, recorder
from benchmarks.full_size import PAPER, TINY, queries
from benchmarks.gpu import FullSize, retrieve_all
from retriever.files import write_whole
from retriever.gpu import prepare_gpu

SHOWN = 30
GAPS = 10
COPIES = ("Memcpy", "Memset")
"""How the names of copies begin, which are listed like kernels but keep no multiprocessor busy."""
_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's name, start and end in milliseconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Gap:
    """Milliseconds without a kernel, and the kernels before and after."""

    milliseconds: float
    before: str
    after: str


def kernels_of(events: Iterable[FunctionEvent], device: str) -> list[Kernel]:
    """Returns the kernels of a profile in order of their start; on a CPU, the outermost operators."""
    if device == "cuda":
        own = [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]
    else:
        own = [e for e in events if e.device_type == DeviceType.CPU and e.cpu_parent is None]
    kernels = [Kernel(e.name, e.time_range.start / 1000, e.time_range.end / 1000) for e in own]
    return sorted(kernels, key=lambda kernel: kernel.start)


def calls_of(events: Iterable[FunctionEvent], batches: int) -> list[dict[str, Any]]:
    """Returns the milliseconds per batch that the host spent in calls of the CUDA runtime, longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.name.startswith("cu") and event.device_type == DeviceType.CPU:
            times[event.name].append(event.time_range.elapsed_us() / 1000)
    longest = sorted(times.items(), key=lambda item: -sum(item[1]))[:SHOWN]
    return [{"call": name, "ms": round(sum(own) / batches, 3), "calls": len(own) / batches} for name, own in longest]


def gaps_of(kernels: Sequence[Kernel]) -> list[Gap]:
    """Returns the times between kernels at which none runs, for kernels in order of their start."""
    gaps = []
    if kernels:
        last = kernels[0]
        for kernel in kernels[1:]:
            if kernel.start > last.end:
                gaps.append(Gap(kernel.start - last.end, last.name, kernel.name))
            if kernel.end > last.end:
                last = kernel
    return gaps


def summarize(kernels: Sequence[Kernel], batches: int) -> dict[str, Any]:
    """Returns the times per batch: of the first kernel to the last, without a kernel, and of each, longest first."""
    running = [kernel for kernel in kernels if not kernel.name.startswith(COPIES)]
    span = max((k.end for k in running), default=0.0) - min((k.start for k in running), default=0.0)
    gaps = sorted(gaps_of(running), key=lambda gap: -gap.milliseconds)
    times: dict[str, list[float]] = defaultdict(list)
    for kernel in kernels:
        times[kernel.name].append(kernel.end - kernel.start)
    idle, busy = sum(gap.milliseconds for gap in gaps), sum(map(sum, times.values()))
    table: list[dict[str, Any]] = [
        {
            "kernel": name,
            "ms": round(sum(own) / batches, 3),
            "share": round(sum(own) / busy, 4) if busy else 0.0,
            "calls": round(len(own) / batches, 1),
        }
        for name, own in sorted(times.items(), key=lambda item: -sum(item[1]))
    ]
    return {
        "span_ms": round(span / batches, 3),
        "idle_ms": round(idle / batches, 3),
        "idle_share": round(idle / span, 4) if span else 0.0,
        "launches": round(len(kernels) / batches, 1),
        "kernels": table[:SHOWN],
        "others_ms": round(sum(row["ms"] for row in table[SHOWN:]), 3),
        "gaps": [{"ms": round(gap.milliseconds, 3), "before": gap.before, "after": gap.after} for gap in gaps[:GAPS]],
    }


def as_markdown(summary: dict[str, Any], title: str) -> str:
    """Returns a summary as text with two tables."""
    lines = [
        f"{title}: {summary['span_ms']} ms per batch from the first kernel to the last, of which {summary['idle_ms']} "
        f"ms ({summary['idle_share']:.1%}) without any kernel; {summary['launches']} kernels per batch.",
        "",
        "| kernel | ms per batch | share | calls per batch |",
        "| --- | --- | --- | --- |",
        *(f"| {_cell(k['kernel'])} | {k['ms']} | {k['share']:.1%} | {k['calls']} |" for k in summary["kernels"]),
        f"| others | {summary['others_ms']} | | |",
        "",
        "| call of the host | ms per batch | calls per batch |",
        "| --- | --- | --- |",
        *(f"| {_cell(one['call'])} | {one['ms']} | {one['calls']:g} |" for one in summary["calls"]),
        "",
        "| gap, ms | after | before |",
        "| --- | --- | --- |",
        *(f"| {gap['ms']} | {_cell(gap['before'])} | {_cell(gap['after'])} |" for gap in summary["gaps"]),
    ]
    return "\n".join(lines) + "\n"


def _cell(name: str) -> str:
    return f"`{name[:120].replace('|', '/')}`"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the trace and returns the exit status."""
    parser = arguments(__doc__, out="", lines=True)
    parser.add_argument("--size", choices=("paper", "tiny"), default="paper", help="sizes of the models (%(default)s)")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="queries per batch (%(default)s)")
    parser.add_argument("--batches", type=int, default=4, metavar="N", help="traced batches (%(default)s)")
    parser.add_argument("--in-flight", type=int, metavar="N", help="batches at once; by default as in a service")
    parser.add_argument("--graphs", action="store_true", help="capture the image towers as CUDA graphs")
    parser.add_argument("--fp8", action="store_true", help="run step 1's image tower in FP8")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where trace.json.gz and kernels.md go")
    args = parser.parse_args(argv)
    device = default_device()
    if device == "cpu" and args.size == "paper":
        print("benchmarks/gpu_trace.py: needs a GPU; --size tiny runs without one", file=sys.stderr)
        return 2
    if device == "cuda":
        prepare_gpu()
    torch.manual_seed(0)
    models = FullSize(
        PAPER if args.size == "paper" else TINY, device, torch.bfloat16 if device == "cuda" else torch.float32
    )
    if args.fp8:
        models.use_fp8()
    if args.graphs:
        models.encoder.use_cuda_graphs()
        models.fusion.use_cuda_graphs()
    asked, retriever = queries(args.batch), models.retriever
    in_flight = args.in_flight or retriever.in_flight
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with ThreadPoolExecutor(in_flight) as threads:
        retrieve_all(retriever, asked, _WARM_UP * in_flight, threads)
        with profile(activities=activities, record_shapes=True) as profiler:
            retrieve_all(retriever, asked, args.batches, threads)
            if device == "cuda":
                torch.cuda.synchronize()
    events = profiler.events()
    summary = summarize(kernels_of(events, device), args.batches) | {"calls": calls_of(events, args.batches)}
    title = f"{device_name()}, commit {commit()}, batch {args.batch}, {in_flight} in flight"
    title += ", CUDA graphs" * args.graphs + ", FP8" * args.fp8
    what = {"batch": args.batch, "in_flight": in_flight, "graphs": args.graphs, "fp8": args.fp8}
    recorder(args.lines, benchmark="trace")({**what, **summary})
    args.out.mkdir(parents=True, exist_ok=True)
    write_whole(args.out / "kernels.md", as_markdown(summary, title).encode())
    profiler.export_chrome_trace(str(args.out / "trace.json.gz"))
    print(as_markdown(summary, title))
    return 0


if __name__ == "__main__":
    sys.exit(main())
