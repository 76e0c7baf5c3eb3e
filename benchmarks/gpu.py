"""Measures the paper profile on one GPU, with full-size models and random weights.

    python benchmarks/gpu.py --out artifacts/bench-gpu             on an 80 GB GPU
    python benchmarks/gpu.py --size tiny --out artifacts/bench     the same code anywhere, in seconds

The GPU's peak is measured in the same run, with one large matrix product and one large copy. Each part is timed alone,
with a synchronization before and after, and then the whole retrieval as the service runs it, with and without CUDA
graphs. FLOPs are PyTorch's own count; bytes are those that a pass must read: weights, vectors, tokens. Writes
`gpu.json` and `gpu.md`.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.full_size import (
    PAPER,
    TINY,
    Sizes,
    SyntheticIndex,
    build_encoder,
    build_fusion,
    build_reranker,
    queries,
    weight_bytes,
    words,
)
from evaluation.metrics import percentile
from evaluation.run import commit
from indexes.progress import progress_bar
from retriever.files import write_json, write_whole
from retriever.maxsim import max_sim_spans
from retriever.models.encoder import ClipEncoder
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.texts import section_passage

Row = dict[str, Any]
_WARM_UP = 3


class DeviceTimer:
    """Times calls on one device and compares them with its peak.

    Args:
        device: "cuda" or "cpu".
        runs: Number of timed calls of each part.
    """

    def __init__(self, device: str, runs: int) -> None:
        self.device, self.runs = device, runs
        self.peak_tflops = self.peak_gbps = float("nan")

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
        """Measures a call: median and 95th percentile, FLOPs and bytes, and their shares of the peak.

        Args:
            part: Name of the row.
            batch: Queries per call.
            call: The call.
            moved: Bytes that it must read.
        """
        times = self.times(call)
        with FlopCounterMode(display=False) as counter:
            call()
        p50 = percentile(times, 50) or float("nan")
        tflops, gbps = counter.get_total_flops() / p50 / 1e9, moved / p50 / 1e6
        return {
            "part": part,
            "batch": batch,
            "p50_ms": round(p50, 3),
            "p95_ms": round(percentile(times, 95) or float("nan"), 3),
            "queries_per_s": round(1000 * batch / p50, 1),
            "gflop": round(counter.get_total_flops() / 1e9, 2),
            "tflops": round(tflops, 2),
            "of_peak_flops": round(tflops / self.peak_tflops, 3),
            "read_mb": round(moved / 1e6, 2),
            "gbps": round(gbps, 1),
            "of_peak_bytes": round(gbps / self.peak_gbps, 3),
        }

    def find_peaks(self, side: int, copied: int, dtype: torch.dtype) -> Row:
        """Measures the peak with one large matrix product and one large copy, counting reads and writes."""
        a, b = (torch.randn(side, side, device=self.device).to(dtype) for _ in range(2))
        source = torch.empty(copied, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        product = percentile(self.times(lambda: a @ b), 50) or float("nan")
        copy = percentile(self.times(lambda: target.copy_(source)), 50) or float("nan")
        self.peak_tflops, self.peak_gbps = 2 * side**3 / product / 1e9, 2 * copied / copy / 1e6
        return {"matmul_side": side, "tflops": round(self.peak_tflops, 2), "copy_gbps": round(self.peak_gbps, 1)}


@torch.inference_mode()
def measure(timer: DeviceTimer, sizes: Sizes, dtype: torch.dtype, batches: Sequence[int], graphs: bool) -> list[Row]:
    """Measures each part and the whole retrieval for each batch size."""
    encoder = build_encoder(sizes, timer.device, dtype)
    fusion = build_fusion(sizes, timer.device, dtype)
    reranker = build_reranker(sizes, timer.device, dtype)
    index = SyntheticIndex(sizes, fusion.token_shape, timer.device)
    steps: list[Step] = [
        EntitySearch(encoder, index, 20),
        FusionRerank(fusion, index, 0.9),
        SectionRerank(reranker, index, 0.2),
    ]
    retriever = Retriever(steps, index)
    section_bytes = index.values[0].nbytes + index.scales[0].nbytes
    rows = []
    for batch in progress_bar(batches, desc="batch sizes", unit="size"):
        asked = queries(batch)
        images, questions = [q.image for q in asked], [q.question for q in asked]
        vectors, tokens = encoder.encode_images(images), fusion.encode(images, questions)
        candidates = [row for found in index.search(vectors, 20)[1].tolist() for row in found]
        spans = [index.section_rows(row) for row in candidates]
        query_of = [i // 20 for i in range(len(spans))]
        stored = index.gather(spans)
        best = [index.entity(row) for row in candidates[::20]]
        passages = [[section_passage(e.title, s.title, s.text) for s in e.sections] for e in best]
        rows += [
            timer.row("1 images to the device", batch, partial(prepare, encoder, images)),
            timer.row(
                "1 image tower", batch, partial(encoder.encode_images, images), weight_bytes(encoder.model.vision)
            ),
            timer.row("1 search", batch, partial(index.search, vectors, 20), index.search_on_device.nbytes),
            timer.row("2 tower and Q-Former", batch, partial(fusion.encode, images, questions), weight_bytes(fusion)),
            timer.row(
                f"2 MaxSim, {sum(map(len, spans))} sections",
                batch,
                partial(max_sim_spans, tokens, stored, query_of, spans),
                sum(map(len, spans)) * section_bytes,
            ),
            timer.row(
                f"3 cross-encoder, {sum(map(len, passages))} sections",
                batch,
                partial(reranker.score, questions, passages),
                weight_bytes(reranker.model),
            ),
            timer.row("retrieval", batch, partial(retriever.retrieve, asked)),
        ]
        rows[-1]["steps_ms"] = retriever.retrieve(asked)[0].timings_ms
    if graphs:
        rows += with_graphs(timer, encoder, fusion, retriever, batches)
    rows += sections_alone(timer, reranker, sizes)
    return rows


def prepare(encoder: ClipEncoder, images: Sequence[Image.Image]) -> torch.Tensor:
    """Prepares images for the image tower: resized by threads on the host, normalized on the device."""
    return encoder.pixels.to_device(images, encoder.model.device, encoder.model.dtype)


def with_graphs(
    timer: DeviceTimer, encoder: Any, fusion: Any, retriever: Retriever[Any], batches: Sequence[int]
) -> list[Row]:
    """Measures both towers and the whole retrieval with the image towers captured as CUDA graphs."""
    encoder.use_cuda_graphs()
    fusion.use_cuda_graphs()
    rows = []
    for batch in progress_bar(batches, desc="with CUDA graphs", unit="size"):
        asked = queries(batch)
        images, questions = [q.image for q in asked], [q.question for q in asked]
        rows += [
            timer.row("1 image tower, graph", batch, partial(encoder.encode_images, images)),
            timer.row("2 tower and Q-Former, graph", batch, partial(fusion.encode, images, questions)),
            timer.row("retrieval, graphs", batch, partial(retriever.retrieve, asked)),
        ]
    return rows


def sections_alone(timer: DeviceTimer, reranker: Any, sizes: Sizes) -> list[Row]:
    """Measures the cross-encoder on one question with 4 to 32 sections."""
    rng = random.Random(0)
    texts = [words(rng, sizes.section_words) for _ in range(32)]
    return [
        timer.row(f"3 cross-encoder, {count} sections", 1, partial(reranker.score, ["where is it?"], [texts[:count]]))
        for count in (4, 8, 16, 32)
    ]


def as_markdown(report: Row) -> str:
    """Returns a report as a Markdown table."""
    peaks = report["peaks"]
    lines = [
        f"{report['device']}, {report['dtype']}, commit {report['commit']}, `{report['command']}`. In this run "
        f"the GPU reaches {peaks['tflops']} TFLOP/s (square matrix product, side {peaks['matmul_side']}) and "
        f"{peaks['copy_gbps']} GB/s (copy).",
        "",
        "| part | batch | p50 ms | p95 ms | queries/s | TFLOP/s (share) | GB/s (share) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["rows"]:
        flops = f"{row['tflops']} ({row['of_peak_flops']:.0%})" if row["gflop"] else "-"
        moved = f"{row['gbps']} ({row['of_peak_bytes']:.0%})" if row["read_mb"] else "-"
        lines.append(
            f"| {row['part']} | {row['batch']} | {row['p50_ms']} | {row['p95_ms']} | {row['queries_per_s']} "
            f"| {flops} | {moved} |"
        )
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("paper", "tiny"), default="paper", help="sizes of the models (%(default)s)")
    parser.add_argument("--batches", default="1,8,32", metavar="N,N", help="batch sizes (%(default)s)")
    parser.add_argument("--runs", type=int, default=30, metavar="N", help="timed calls of each part (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where gpu.json and gpu.md go")
    args = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and args.size == "paper":
        print("benchmarks/gpu.py: needs a GPU; --size tiny runs without one", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    large = args.size == "paper"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    timer = DeviceTimer(device, args.runs)
    peaks = timer.find_peaks(8192 if large else 512, 4 << 30 if large else 1 << 24, dtype)
    batches = [int(batch) for batch in args.batches.split(",")]
    rows = measure(timer, PAPER if large else TINY, dtype, batches, graphs=device == "cuda")
    report = {
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "commit": commit(),
        "command": f"python benchmarks/gpu.py --size {args.size} --batches {args.batches} --runs {args.runs}",
        "peaks": peaks,
        "peak_memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2) if device == "cuda" else None,
        "rows": rows,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "gpu.json", report)
    write_whole(args.out / "gpu.md", as_markdown(report).encode())
    print(as_markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
