"""The paper profile's cost on one GPU: its models at full size with random weights, nothing to download.

    python benchmarks/gpu.py --out artifacts/bench-gpu             on a GPU of 80 GB
    python benchmarks/gpu.py --size tiny --out artifacts/bench     the same code anywhere, in seconds

What the card can do is measured in the same run: one large matrix product and one large copy. Every part is timed
alone, with a wait for the device before and after, and the whole retrieval as the service runs it, with and without
CUDA graphs. FLOPs are PyTorch's own count; bytes are what a pass cannot avoid reading: weights, vectors, tokens.
Writes `gpu.json` and `gpu.md`.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

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
from retriever.files import write_whole
from retriever.maxsim import max_sim_spans
from retriever.models.encoder import ClipEncoder
from retriever.pipeline import Retriever
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.texts import section_passage

Row = dict[str, Any]
_WARM_UP = 3


class Bench:
    """Times calls on one device.

    Args:
        device: "cuda" or "cpu".
        runs: Timed calls of each part.
        peak_tflops: What a large matrix product reaches, to compare with.
        peak_gbps: What a large copy reaches, reads and writes counted.
    """

    def __init__(self, device: str, runs: int) -> None:
        self.device, self.runs = device, runs
        self.peak_tflops = self.peak_gbps = float("nan")

    def wait(self) -> None:
        """Waits until the device has nothing left to do."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def times(self, call: Callable[[], Any]) -> list[float]:
        """Returns the milliseconds of each call, the first few not counted."""
        found = []
        for run in range(-_WARM_UP, self.runs):
            self.wait()
            started = time.perf_counter()
            call()
            self.wait()
            if run >= 0:
                found.append((time.perf_counter() - started) * 1000)
        return found

    def row(self, part: str, batch: int, call: Callable[[], Any], moved: int = 0) -> Row:
        """Returns median and 95th percentile of a call, its FLOPs and bytes, and their share of what the card can do.

        Args:
            part: What the table calls it.
            batch: Queries of a call.
            call: What is timed.
            moved: Bytes that it cannot avoid to read.
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
        """Returns and keeps what one large matrix product and one large copy reach."""
        a, b = (torch.randn(side, side, device=self.device).to(dtype) for _ in range(2))
        source = torch.empty(copied, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        product = percentile(self.times(lambda: a @ b), 50) or float("nan")
        copy = percentile(self.times(lambda: target.copy_(source)), 50) or float("nan")
        self.peak_tflops, self.peak_gbps = 2 * side**3 / product / 1e9, 2 * copied / copy / 1e6
        return {"matmul_side": side, "tflops": round(self.peak_tflops, 2), "copy_gbps": round(self.peak_gbps, 1)}


@torch.inference_mode()
def measure(bench: Bench, sizes: Sizes, dtype: torch.dtype, batches: Sequence[int], graphs: bool) -> list[Row]:
    """Returns a row for each part and batch size, and one for the whole retrieval."""
    encoder = build_encoder(sizes, bench.device, dtype)
    fusion = build_fusion(sizes, bench.device, dtype)
    reranker = build_reranker(sizes, bench.device, dtype)
    index = SyntheticIndex(sizes, fusion.token_shape, bench.device)
    steps = [EntitySearch(encoder, index, 20), FusionRerank(fusion, index, 0.9), SectionRerank(reranker, index, 0.2)]
    retriever = Retriever(steps, index)
    section_bytes = index.values[0].nbytes + index.scales[0].nbytes
    rows = []
    for batch in tqdm(batches, desc="batch sizes"):
        asked = queries(batch)
        pictures, questions = [q.image for q in asked], [q.question for q in asked]
        vectors, tokens = encoder.encode_images(pictures), fusion.encode(pictures, questions)
        candidates = [row for found in index.search(vectors, 20)[1].tolist() for row in found]
        spans = [index.section_rows(row) for row in candidates]
        query_of = [i // 20 for i in range(len(spans))]
        stored = index.gather(spans)
        best = [index.entity(row) for row in candidates[::20]]
        passages = [[section_passage(e.title, s.title, s.text) for s in e.sections] for e in best]
        rows += [
            bench.row("1 pictures to the device", batch, lambda p=pictures: prepare(encoder, p)),
            bench.row(
                "1 image tower", batch, lambda p=pictures: encoder.encode_images(p), weight_bytes(encoder.model.vision)
            ),
            bench.row("1 search", batch, lambda v=vectors: index.search(v, 20), index.search_on_device.nbytes),
            bench.row(
                "2 tower and Q-Former", batch, lambda p=pictures, q=questions: fusion.encode(p, q), weight_bytes(fusion)
            ),
            bench.row(
                f"2 MaxSim, {sum(map(len, spans))} sections",
                batch,
                lambda t=tokens, s=stored, q=query_of, r=spans: max_sim_spans(t, s, q, r),
                sum(map(len, spans)) * section_bytes,
            ),
            bench.row(
                f"3 cross-encoder, {sum(map(len, passages))} sections",
                batch,
                lambda q=questions, p=passages: reranker.score(q, p),
                weight_bytes(reranker.model),
            ),
            bench.row("retrieval", batch, lambda a=asked: retriever.retrieve(a)),
        ]
        rows[-1]["steps_ms"] = retriever.retrieve(asked)[0].timings_ms
    if graphs:
        rows += with_graphs(bench, encoder, fusion, retriever, batches)
    rows += sections_alone(bench, reranker, sizes)
    return rows


def prepare(encoder: ClipEncoder, pictures: Sequence[Image.Image]) -> torch.Tensor:
    """Returns the pictures as the image tower takes them: resized by threads on the host, normalized on the device."""
    return encoder.pixels.to_device(pictures, encoder.model.device, encoder.model.dtype)


def with_graphs(
    bench: Bench, encoder: Any, fusion: Any, retriever: Retriever[Any], batches: Sequence[int]
) -> list[Row]:
    """Returns the rows of both towers and of the retrieval with the image towers as CUDA graphs."""
    encoder.use_cuda_graphs()
    fusion.use_cuda_graphs()
    rows = []
    for batch in tqdm(batches, desc="with CUDA graphs"):
        asked = queries(batch)
        pictures, questions = [q.image for q in asked], [q.question for q in asked]
        rows += [
            bench.row("1 image tower, graph", batch, lambda p=pictures: encoder.encode_images(p)),
            bench.row("2 tower and Q-Former, graph", batch, lambda p=pictures, q=questions: fusion.encode(p, q)),
            bench.row("retrieval, graphs", batch, lambda a=asked: retriever.retrieve(a)),
        ]
    return rows


def sections_alone(bench: Bench, reranker: Any, sizes: Sizes) -> list[Row]:
    """Returns the cross-encoder's rows for one question and 4 to 32 sections."""
    rng = random.Random(0)
    texts = [words(rng, sizes.section_words) for _ in range(32)]
    return [
        bench.row(
            f"3 cross-encoder, {count} sections", 1, lambda n=count: reranker.score(["where is it?"], [texts[:n]])
        )
        for count in (4, 8, 16, 32)
    ]


def as_markdown(report: Row) -> str:
    """Returns the table of a report."""
    peaks = report["peaks"]
    lines = [
        f"{report['device']}, {report['dtype']}, commit {report['commit']}, `{report['command']}`. In this run "
        f"the card reaches {peaks['tflops']} TFLOP/s (matrix product of side {peaks['matmul_side']}) and "
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
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("paper", "tiny"), default="paper", help="sizes of the models (%(default)s)")
    parser.add_argument("--batches", default="1,8,32", metavar="N,N", help="batch sizes (%(default)s)")
    parser.add_argument("--runs", type=int, default=30, metavar="N", help="timed calls of each part (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where gpu.json and gpu.md go")
    args = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and args.size == "paper":
        print("benchmarks/gpu.py: needs a GPU; --size tiny runs the same code without one", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    large = args.size == "paper"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    bench = Bench(device, args.runs)
    peaks = bench.find_peaks(8192 if large else 512, 4 << 30 if large else 1 << 24, dtype)
    batches = [int(batch) for batch in args.batches.split(",")]
    rows = measure(bench, PAPER if large else TINY, dtype, batches, graphs=device == "cuda")
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
    write_whole(args.out / "gpu.json", json.dumps(report, indent=2).encode() + b"\n")
    write_whole(args.out / "gpu.md", as_markdown(report).encode())
    print(as_markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
