"""Measures the paper profile on one GPU, with full-size models and random weights.

    python -m benchmarks.gpu --out artifacts/bench-gpu             on an 80 GB GPU
    python -m benchmarks.gpu --size tiny --out artifacts/bench     the same code anywhere, in seconds
    python -m benchmarks.gpu --trace --batches 1,16 --out DIR      which kernels take the time, and when none runs

The GPU's peak is measured in the same run, with one large matrix product and one large copy. Each part is timed alone,
with a synchronization before and after, and then the whole retrieval: one batch alone, and batch after batch as in a
busy service, with and without CUDA graphs, and with step 1's image tower in FP8. With batches of 1, rows have the
number of launches, of which each takes the host 12 us: tests/gpu/test_launches.py computes from it what a question may
take. FLOPs are PyTorch's own count; bytes
are those that a pass must read: weights, vectors, tokens. The bound of a retrieval is the sum over its parts of the
longer of two times: of their FLOPs at four fifths of the peak, or of their bytes. Writes `gpu.json` and `gpu.md`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.device_timer import DeviceTimer, Row
from benchmarks.frame import arguments, as_markdown, commit, default_device, device_name, machine, recorder
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
from indexes.progress import progress_bar
from indexes.store.search_faiss_gpu import FaissGpu, FaissGpuVectors
from retriever.files import write_json, write_whole
from retriever.gpu import prepare_gpu
from retriever.maxsim import max_sim_spans
from retriever.models.cross_encoder import BATCH_TOKENS
from retriever.models.encoder import ClipEncoder
from retriever.models.fp8 import use_fp8
from retriever.models.graphs import LARGEST
from retriever.models.packed_roberta import TOTALS
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.texts import section_passage
from retriever.types import IntArray, Query

BATCHES = "1,8,16,32"
TRACED = 4
"""Batches in a trace."""
COPIES = ("Memcpy", "Memset")
"""How the names of copies begin, which are traced like kernels but keep no multiprocessor busy."""


class FullSize:
    """The models of the three steps at one size, an index, and the retrieval that uses them.

    Args:
        sizes: The sizes.
        device: "cuda" or "cpu".
        dtype: Type of the weights.
    """

    def __init__(self, sizes: Sizes, device: str, dtype: torch.dtype) -> None:
        self.sizes, self.device = sizes, device
        self.encoder = build_encoder(sizes, device, dtype)
        self.fusion = build_fusion(sizes, device, dtype)
        self.reranker = build_reranker(sizes, device, dtype)
        self.index = SyntheticIndex(sizes, self.fusion.token_shape, device)

    @property
    def retriever(self) -> Retriever[SyntheticIndex]:
        """The retrieval, with the present models."""
        steps: list[Step] = [
            EntitySearch(self.encoder, self.index, 20),
            FusionRerank(self.fusion, self.index, 0.9),
            SectionRerank(self.reranker, self.index, 0.2),
        ]
        return Retriever(steps, self.index, device=self.device)

    def use_cuda_graphs(self) -> None:
        """Runs all models as CUDA graphs."""
        for model in (self.encoder, self.fusion, self.reranker):
            model.use_cuda_graphs()

    def use_fp8(self) -> None:
        """Rounds step 1's image tower to FP8; captured graphs of it are dropped."""
        before = self.encoder
        use_fp8(before.model.vision.blocks, before.model.device)
        self.encoder = ClipEncoder(before.model, before.tokenizer, before.pixels, before.max_tokens, "random")


@torch.inference_mode()
def measure(
    timer: DeviceTimer, models: FullSize, batches: Sequence[int], graphs: bool, fp8: bool = False
) -> Iterator[Row]:
    """Measures each part and the whole retrieval for each batch size; yields each row as soon as it is known."""
    parts: dict[int, list[Row]] = {}
    small = [batch for batch in batches if batch <= LARGEST]
    kinds = {"": batches, ", graphs": small} if graphs else {"": batches}
    for kind, sizes in kinds.items():
        if kind:
            models.use_cuda_graphs()
        for batch in progress_bar(sizes, desc=f"batch sizes{kind}", unit="size"):
            rows = []
            for row in measure_parts(timer, models, batch):
                rows.append(row)
                yield row | {"part": row["part"] + kind}
            parts.setdefault(batch, rows)  # graphs hide their FLOPs
            yield from measure_retrieval(timer, models, batch, "retrieval" + kind, parts[batch])
    yield from sections_alone(timer, models)
    if graphs:
        models.reranker.batch_tokens = TOTALS[-1] - 1  # each pass of step 3 is one launch, which no thread can delay
        for batch in small[-1:]:
            yield from measure_retrieval(timer, models, batch, "retrieval, short passes, graphs", parts[batch])
        models.reranker.batch_tokens = BATCH_TOKENS
    if timer.device == "cuda" and hasattr(faiss, "StandardGpuResources"):
        yield from measure_faiss(timer, models, batches)
    if not fp8:
        return
    models.use_fp8()
    for kind, sizes in kinds.items():
        if kind:
            models.encoder.use_cuda_graphs()
        for batch in progress_bar(sizes, desc=f"with FP8{kind}", unit="size"):
            row = image_tower(timer, models, batch, "1 image tower, FP8" + kind)
            yield row
            if not kind:
                parts[batch] = [row if part["part"] == "1 image tower" else part for part in parts[batch]]
            if bool(kind) == graphs:
                yield from measure_retrieval(timer, models, batch, f"retrieval, FP8{kind}", parts[batch])


def image_tower(timer: DeviceTimer, models: FullSize, batch: int, part: str) -> Row:
    """Measures step 1's image tower."""
    images = [query.image for query in queries(batch)]
    moved = weight_bytes(models.encoder.model.vision)
    return timer.row(part, batch, partial(models.encoder.encode_images, images), moved)


def measure_parts(timer: DeviceTimer, models: FullSize, batch: int) -> Iterator[Row]:
    """Measures each part of a retrieval alone."""
    encoder, fusion, reranker, index = models.encoder, models.fusion, models.reranker, models.index
    section_bytes = index.values[0].nbytes + index.scales[0].nbytes
    asked = queries(batch)
    images, questions = [q.image for q in asked], [q.question for q in asked]
    fuse = partial(fusion.encode_sections, images, [(question, "") for question in questions])
    vectors, tokens = encoder.encode_images(images), fuse()[::2]
    candidates = [row for found in index.search(vectors, 20)[1].tolist() for row in found]
    spans = [index.section_rows(row) for row in candidates]
    query_of = [i // 20 for i in range(len(spans))]
    stored = index.gather(spans)
    best = [index.entity(row) for row in candidates[::20]]
    passages = [[section_passage(e.title, s.title, s.text) for s in e.sections] for e in best]
    prepare = partial(encoder.pixels.to_device, images, encoder.model.device, encoder.model.dtype)
    yield timer.row("1 images to the device", batch, prepare)
    yield image_tower(timer, models, batch, "1 image tower")
    yield timer.row("1 search", batch, partial(index.search, vectors, 20), index.search_on_device.nbytes)
    yield timer.row("2 tower and Q-Former", batch, fuse, weight_bytes(fusion))
    yield timer.row(
        f"2 MaxSim, {sum(map(len, spans))} sections",
        batch,
        partial(max_sim_spans, tokens, stored, query_of, spans),
        sum(map(len, spans)) * section_bytes,
    )
    sections = sum(map(len, passages))
    score = partial(reranker.score, questions, passages)
    row = timer.row(f"3 cross-encoder, {sections} sections", batch, score, weight_bytes(reranker.model))
    yield row | {"sections": sections}


def measure_retrieval(
    timer: DeviceTimer, models: FullSize, batch: int, part: str, parts: Sequence[Row]
) -> Iterator[Row]:
    """Measures the whole retrieval and its share of the bound of its parts: one batch alone, and batch after batch.

    Step 3's part of the bound is scaled to the sections of the entities that this retrieval finds best: with random
    weights, any change of the models changes these.
    """
    asked, retriever = queries(batch), models.retriever
    alone = timer.row(part, batch, partial(retriever.retrieve, asked))
    results = retriever.retrieve(asked)
    alone["steps_ms"] = results[0].timings_ms
    sections = sum(len(result.candidates[0].sections) for result in results)
    bound_ms = timer.bound(
        row | {"gflop": row["gflop"] * sections / row["sections"]} if "sections" in row else row for row in parts
    )
    with ThreadPoolExecutor(retriever.in_flight) as threads:
        retrieve_all(retriever, asked, 2 * retriever.in_flight, threads)  # a thread's first batch is slow
        started = time.perf_counter()
        retrieve_all(retriever, asked, timer.runs, threads)
        timer.wait()
    each_ms = (time.perf_counter() - started) * 1000 / timer.runs
    flow = timer.timed(f"{part}, {retriever.in_flight} in flight", batch, [each_ms])
    for row in (alone, flow):
        row["sections"] = sections
        row["bound_queries_per_s"] = round(1000 * batch / bound_ms, 1)
        row["of_bound"] = round(bound_ms / row["p50_ms"], 3)
        yield row


def retrieve_all(
    retriever: Retriever[SyntheticIndex], asked: Sequence[Query], batches: int, threads: ThreadPoolExecutor
) -> None:
    """Retrieves for the same queries several times, with as many batches at once as there are threads."""
    list(threads.map(retriever.retrieve, [asked] * batches))


def sections_alone(timer: DeviceTimer, models: FullSize) -> Iterator[Row]:
    """Measures the cross-encoder on one question with 4 to 32 sections."""
    rng = random.Random(0)
    texts = [words(rng, models.sizes.section_words) for _ in range(32)]
    for count in (4, 8, 16, 32):
        score = partial(models.reranker.score, ["where is it?"], [texts[:count]])
        yield timer.row(f"3 cross-encoder, {count} sections", 1, score)


def measure_faiss(timer: DeviceTimer, models: FullSize, batches: Sequence[int]) -> Iterator[Row]:
    """Measures FAISS's search over the same vectors on the GPU, and the share of the same results that it finds."""
    index = models.index
    search = FaissGpuVectors(
        FaissGpu(index.vectors.device),
        lambda start, stop: index.vectors[start:stop].cpu().numpy(),
        index.vectors.shape[1],
        np.arange(len(index.vectors)),
    )
    for batch in batches:
        vectors = models.encoder.encode_images([query.image for query in queries(batch)])
        row = timer.row("1 search, FAISS", batch, partial(search.search, vectors, 20), index.vectors.nbytes)
        yield row | {"overlap": overlap(search.search(vectors, 20)[1], index.search(vectors, 20)[1])}


def overlap(rows: IntArray, expected: IntArray) -> float:
    """Returns the share of expected rows [B, K] that were found, in any order."""
    pairs = zip(rows.tolist(), expected.tolist(), strict=True)
    return sum(len(set(one) & set(other)) for one, other in pairs) / expected.size


def as_text(report: Row) -> str:
    """Returns a report as a sentence and a Markdown table."""
    where, dtype, command = (report[name] for name in ("machine", "dtype", "command"))
    about = f"{where['device']}, driver {where['driver']}, PyTorch {where['packages']['torch']}, {dtype}"
    columns = (
        "part",
        "batch",
        "p50_ms",
        "p95_ms",
        "queries_per_s",
        "of_bound",
        "launches",
        "tflops",
        "gbps",
        "memory_gb",
    )
    table = as_markdown([{name: row.get(name, "-") for name in columns} for row in report["rows"]])
    return f"{about}, commit {where['commit']}, `{command}`, {report['peaks']}\n\n{table}\n"


def trace(models: FullSize, batch: int, out: Path) -> Row:
    """Traces batches that follow each other as in a busy service; on a CPU, operators take the place of kernels.

    Writes `trace-N.json.gz`, for chrome://tracing or https://ui.perfetto.dev, and `kernels-N.md`, PyTorch's table of
    kernels and of the host's calls, for batches of N. Returns milliseconds per batch, those without any kernel, and the
    number of kernels.
    """
    retriever, photographs, cuda = models.retriever, queries(batch), models.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with ThreadPoolExecutor(retriever.in_flight) as threads:
        retrieve_all(retriever, photographs, 3 * retriever.in_flight, threads)
        with profile(activities=activities, record_shapes=True) as profiler:
            retrieve_all(retriever, photographs, TRACED, threads)
            if cuda:
                torch.cuda.synchronize()
    kind = DeviceType.CUDA if cuda else DeviceType.CPU
    outermost = [e for e in profiler.events() if e.device_type == kind and e.cpu_parent is None]
    kernels = [e for e in outermost if not (cuda and e.is_user_annotation) and not e.name.startswith(COPIES)]
    spans = [(event.time_range.start / 1000, event.time_range.end / 1000) for event in kernels]
    row = {"batch": batch, "in_flight": retriever.in_flight, **idle_time(spans, TRACED)}
    table = profiler.key_averages().table(sort_by=f"self_{models.device}_time_total", row_limit=40)
    write_whole(
        out / f"kernels-{batch}.md", f"{device_name()}, commit {commit()}: {row}\n\n```\n{table}\n```\n".encode()
    )
    profiler.export_chrome_trace(str(out / f"trace-{batch}.json.gz"))
    return row


def idle_time(kernels: Sequence[tuple[float, float]], batches: int) -> dict[str, float]:
    """Returns milliseconds per batch from the first kernel's start to the last one's end, and those without any."""
    ordered = sorted(kernels)
    first = last = ordered[0][0] if ordered else 0.0
    idle = 0.0
    for start, end in ordered:
        idle += max(start - last, 0.0)
        last = max(last, end)
    per_batch = {"span_ms": last - first, "idle_ms": idle, "kernels": len(ordered)}
    return {name: round(value / batches, 3) for name, value in per_batch.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit status."""
    parser = arguments(__doc__, out="", lines=True)
    parser.add_argument("--size", choices=("paper", "tiny"), default="paper", help="sizes of the models (%(default)s)")
    parser.add_argument("--batches", default=BATCHES, metavar="N,N", help="batch sizes (%(default)s)")
    parser.add_argument("--runs", type=int, default=30, metavar="N", help="timed calls of each part (%(default)s)")
    parser.add_argument("--trace", action="store_true", help="trace them with CUDA graphs, instead of measuring")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the results go")
    args = parser.parse_args(argv)
    device = default_device()
    if device == "cpu" and args.size == "paper":
        print("benchmarks/gpu.py: needs a GPU; --size tiny runs without one", file=sys.stderr)
        return 2
    if device == "cuda":
        prepare_gpu()
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    large = args.size == "paper"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    batches = [int(batch) for batch in args.batches.split(",")]
    if args.trace:
        models = FullSize(PAPER if large else TINY, device, dtype)
        models.use_cuda_graphs()
        for batch in batches:
            recorder(args.lines, benchmark="trace")(trace(models, batch, args.out))
        return 0
    timer, record = DeviceTimer(device, args.runs), recorder(args.lines, benchmark="gpu")
    peaks = timer.find_peaks(8192 if large else 512, 4 << 30 if large else 1 << 24, dtype)  # before memory is full
    record({"size": args.size, "dtype": str(dtype).removeprefix("torch."), "peaks": peaks})
    models = FullSize(PAPER if large else TINY, device, dtype)
    rows: list[Row] = []
    fp8 = device == "cpu" or "fp8_tflops" in peaks  # older GPUs have none
    for row in measure(timer, models, batches, graphs=device == "cuda", fp8=fp8):
        rows.append(row)
        record(row)
    report = {
        "dtype": str(dtype).removeprefix("torch."),
        "machine": machine(),
        "command": f"python -m benchmarks.gpu --size {args.size} --batches {args.batches} --runs {args.runs}",
        "peaks": peaks,
        "rows": rows,
    }
    write_json(args.out / "gpu.json", report)
    write_whole(args.out / "gpu.md", as_text(report).encode())
    print(as_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
