r"""Benchmarks step 2's late interaction over stored tokens: this project's kernels against simpler implementations.

    python -m benchmarks.maxsim [--out maxsim.json]
    python -m benchmarks.maxsim --device cpu --batches 1 4 --lengths 128 768 --rows 2000

A batch has 20 candidates per query, each with 1 to 60 sections of 32 tokens, at random places in a store of random unit
tokens. On a GPU, the Triton kernel (with 1 to 8 sections per program) is compared with the usual PyTorch code: gather
the candidates into a padded tensor, one batched product, maximum, sum. All are captured in CUDA graphs and timed with
CUDA events, which excludes Python's overhead. On a CPU, the PyTorch path is compared with the same code and with
maxsim-cpu (`pip install maxsim-cpu==0.1.0`), which supports only float32. Batches cycle through `--sets` lists of
candidates, so that tokens come from memory and not from a cache. `difference` is the largest difference from a float64
computation of a section's score, as a mean over query tokens. GB/s counts the sections that must be read, even if a
method reads more.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.frame import (
    arguments,
    as_markdown,
    command_line,
    commit,
    default_device,
    machine,
    recorder,
    version,
    write_report,
)
from evaluation.metrics import percentile
from retriever.codecs import encode_tokens
from retriever.kernels import max_sim_pairs
from retriever.token_codec import TokenCodec

TOKENS = 32
TILES = (1, 2, 4, 8)
_CHUNK = 4096
_WARM_UP = 3
_MAXSIM_CPU_LENGTH = 256
"""maxsim-cpu 0.1.0 gave wrong scores for longer tokens (512, 768) and crashed once."""

Kernel = Callable[[], Tensor]


@dataclass(frozen=True)
class RandomStore:
    """Section tokens [R, M, H], with scales [R, M] if they are int8."""

    name: str
    values: Tensor
    scales: Tensor | None

    def bytes_of(self, sections: int) -> int:
        """Returns the size of a number of sections in bytes."""
        parts = [self.values] if self.scales is None else [self.values, self.scales]
        return sections * sum(part[0].nbytes for part in parts)


@dataclass(frozen=True)
class PairBatch:
    """Queries [B, 32, H] and their pairs, the arguments of `max_sim_pairs`."""

    queries: Tensor
    query_of: Tensor
    first: Tensor
    counts: Tensor
    total: int
    most: int


Method = Callable[[PairBatch, RandomStore], Kernel]


def make_store(rows: int, length: int, dtype: torch.dtype, device: torch.device) -> RandomStore:
    """Builds a store of random unit tokens."""
    values = torch.empty(rows, TOKENS, length, dtype=dtype, device=device)
    scales = torch.empty(rows, TOKENS, dtype=torch.float16, device=device) if dtype == torch.int8 else None
    for at in range(0, rows, _CHUNK):
        part = slice(at, at + _CHUNK)
        unit = torch.nn.functional.normalize(torch.randn(values[part].shape, device=device), dim=-1)
        if scales is None:
            values[part] = unit
        else:
            encoded = encode_tokens(unit, TokenCodec("int8"))
            assert encoded.scales is not None
            values[part], scales[part] = encoded.values, encoded.scales
    return RandomStore(str(dtype).removeprefix("torch."), values, scales)


def make_batch(size: int, entities: int, most: int, store: RandomStore, rng: np.random.Generator) -> PairBatch:
    """Builds queries with ragged candidates at random places in the store."""
    device, length = store.values.device, store.values.shape[2]
    counts = rng.integers(1, most + 1, size * entities)
    first = rng.integers(0, len(store.values) - counts + 1)
    queries = torch.nn.functional.normalize(torch.randn(size, TOKENS, length, device=device), dim=-1)
    arrays = (np.arange(size).repeat(entities), first, counts)
    query_of, starts, lengths = (torch.from_numpy(array).to(device) for array in arrays)
    return PairBatch(queries, query_of, starts, lengths, int(counts.sum()), int(counts.max()))


def kernel(batch: PairBatch, store: RandomStore, tile: int | None = None) -> Kernel:
    """Returns this project's kernel; `tile` is for Triton only."""
    stored, indexes = (batch.queries, store.values, store.scales), (batch.query_of, batch.first, batch.counts)
    if tile is None:
        pairs = torch.stack(indexes).numpy(force=True)
        return lambda: max_sim_pairs(*stored, pairs)

    from retriever.kernels import maxsim_triton

    return lambda: maxsim_triton.max_sim_pairs(*stored, *indexes, total=batch.total, most=batch.most, tile=tile)


def padded(batch: PairBatch, store: RandomStore) -> Kernel:
    """Returns the usual code: gather, pad, one batched product. The indices to gather are precomputed."""
    device, work = store.values.device, torch.float16 if store.values.is_cuda else torch.float32
    size, pairs = len(batch.queries), batch.query_of.tolist()
    lists: list[list[int]] = [[] for _ in range(size)]
    owners: list[list[int]] = [[] for _ in range(size)]
    for pair, (query, first, count) in enumerate(zip(pairs, batch.first.tolist(), batch.counts.tolist(), strict=True)):
        lists[query] += range(first, first + count)
        owners[query] += [pair] * count
    width = max(len(rows) for rows in lists)
    index = torch.tensor([rows + [0] * (width - len(rows)) for rows in lists], device=device)
    where = [query * width + at for query, rows in enumerate(lists) for at in range(len(rows))]
    place, owner = torch.tensor(where, device=device), torch.tensor([p for row in owners for p in row], device=device)
    queries = batch.queries.to(work).mT.contiguous()

    def run() -> Tensor:
        products = torch.bmm(store.values[index].to(work).flatten(1, 2), queries)
        products = products.view(size * width, TOKENS, TOKENS)
        if store.scales is not None:
            products = products * store.scales[index].to(work).view(size * width, TOKENS, 1)
        scores = products.amax(dim=1).float().sum(dim=-1)[place]
        scores.new_full((len(pairs),), -torch.inf).scatter_reduce_(0, owner, scores, "amax")
        return scores

    return run


def maxsim_cpu(batch: PairBatch, store: RandomStore) -> Kernel:
    """Returns maxsim-cpu's code with one call per pair; a pair's sections are adjacent, so nothing is copied."""
    library = importlib.import_module("maxsim_cpu")

    values, queries = store.values.numpy(), batch.queries.numpy()
    pairs = list(zip(batch.query_of.tolist(), batch.first.tolist(), batch.counts.tolist(), strict=True))

    def run() -> Tensor:
        parts = [library.maxsim_scores(queries[q], values[first : first + count]) for q, first, count in pairs]
        scores = torch.from_numpy(np.concatenate(parts))
        scores.new_tensor([part.max() for part in parts])
        return scores

    return run


def exact(batch: PairBatch, store: RandomStore) -> Tensor:
    """Computes the sections' scores in float64."""
    scores = []
    for query, first, count in zip(batch.query_of.tolist(), batch.first.tolist(), batch.counts.tolist(), strict=True):
        tokens = store.values[first : first + count].double()
        if store.scales is not None:
            tokens *= store.scales[first : first + count, :, None]
        scores.append((tokens @ batch.queries[query].double().T).amax(dim=1).sum(dim=-1))
    return torch.cat(scores)


def methods(store: RandomStore) -> dict[str, Method]:
    """Returns the methods that support the store's device and dtype, by name."""
    if store.values.is_cuda:
        tiles: dict[str, Method] = {f"triton, {tile} per program": partial(kernel, tile=tile) for tile in TILES}
        return tiles | {"padded bmm": padded}
    supported: dict[str, Method] = {"torch, a product per pair": kernel, "padded bmm": padded}
    if store.name == "float32" and store.values.shape[2] <= _MAXSIM_CPU_LENGTH and version("maxsim-cpu"):
        supported["maxsim-cpu"] = maxsim_cpu
    return supported


def milliseconds(runs: Sequence[Kernel], rounds: int, cuda: bool) -> list[float]:
    """Times the kernels in turns and returns the milliseconds of every run."""
    for run in list(runs)[:_WARM_UP]:
        run()
    timed = [_captured(run) for run in runs] if cuda else [_clocked(run) for run in runs]
    for once in timed[:_WARM_UP]:
        once()
    return [once() for _ in range(rounds) for once in timed]


def _clocked(run: Kernel) -> Callable[[], float]:
    def once() -> float:
        started = time.perf_counter()
        run()
        return (time.perf_counter() - started) * 1000

    return once


def _captured(run: Kernel) -> Callable[[], float]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def once() -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    return once


def copy_bandwidth(device: torch.device) -> float:
    """Measures a large copy in GB/s, counting reads and writes."""
    source = torch.ones((2**30 if device.type == "cuda" else 2**27) // 4, device=device)
    target = torch.empty_like(source)
    taken = milliseconds([lambda: target.copy_(source)], 20, device.type == "cuda")
    return 2 * source.nbytes / float(np.median(taken)) / 1e6


def measure(
    store: RandomStore, batches: Sequence[PairBatch], rounds: int, bandwidth: float
) -> Iterator[dict[str, Any]]:
    """Measures each method and yields its row."""
    one, sections = batches[0], float(np.mean([batch.total for batch in batches]))
    reference = exact(one, store)
    useful = store.bytes_of(1) * sections + one.queries.numel() * 2
    work = 2 * TOKENS * TOKENS * store.values.shape[2] * sections
    for name, method in methods(store).items():
        runs = [method(batch, store) for batch in batches]
        difference = float((runs[0]().double() - reference).abs().max()) / TOKENS
        taken = milliseconds(runs, rounds, store.values.is_cuda)
        median = float(np.median(taken))
        yield {
            "method": name,
            "tokens": store.name,
            "length": store.values.shape[2],
            "batch": len(one.queries),
            "sections": round(sections),
            "p50_ms": percentile(taken, 50),
            "p95_ms": percentile(taken, 95),
            "gb_s": round(useful / median / 1e6, 1),
            "of_copy": round(useful / median / 1e6 / bandwidth, 3),
            "tflop_s": round(work / median / 1e9, 3),
            "difference": float(f"{difference:.1e}"),
        }


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, lines=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default=default_device(), help="(%(default)s)")
    per_batch = "queries per batch (GPU: 1 8 16 32, CPU: 1 4)"
    parser.add_argument("--batches", type=int, nargs="+", metavar="B", help=per_batch)
    parser.add_argument("--lengths", type=int, nargs="+", metavar="H", help="token lengths (GPU: 768, CPU: 128 768)")
    parser.add_argument("--rows", type=int, metavar="R", help="sections in the store (GPU: 200000, CPU: 2000)")
    parser.add_argument("--entities", type=int, default=20, metavar="K", help="candidates per query (%(default)s)")
    parser.add_argument("--most", type=int, default=60, metavar="S", help="most sections of a candidate (%(default)s)")
    parser.add_argument(
        "--sets", type=int, default=8, metavar="N", help="lists of candidates to cycle through (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="turns (GPU: 25, CPU: 4)")
    args = parser.parse_args(argv)
    on_gpu, device = args.device == "cuda", torch.device(args.device)
    if on_gpu and (default_device() == "cpu" or not find_spec("triton")):
        parser.error("--device cuda needs a CUDA device and triton")
    sizes, lengths = (
        args.batches or ([1, 8, 16, 32] if on_gpu else [1, 4]),
        args.lengths or ([768] if on_gpu else [128, 768]),
    )
    rows, rounds = args.rows or (200_000 if on_gpu else 2_000), args.rounds or (25 if on_gpu else 4)
    if min(*sizes, *lengths, args.entities, args.most, args.sets, rounds) < 1 or rows < args.most:
        parser.error("all numbers must be at least 1, and --rows at least --most")
    # Use as many threads as PyTorch; maxsim-cpu reads the variable on import.
    os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
    torch.manual_seed(0)
    bandwidth = copy_bandwidth(device)
    table: list[dict[str, Any]] = []
    record = recorder(args.lines, benchmark="maxsim")
    for length in lengths:
        for dtype in (torch.float16, torch.int8) if on_gpu else (torch.float32, torch.float16, torch.int8):
            store, rng = make_store(rows, length, dtype, device), np.random.default_rng(0)
            for size in sizes:
                batches = [make_batch(size, args.entities, args.most, store, rng) for _ in range(args.sets)]
                for row in measure(store, batches, rounds, bandwidth):
                    table.append(row)
                    record(row)
    name = torch.cuda.get_device_name(device) if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    versions = {package: version(package) for package in ("torch", "triton", "maxsim-cpu", "numpy")}
    print(f"{name}, copy {bandwidth:.1f} GB/s, PyTorch {versions['torch']}\n\n{as_markdown(table)}")
    if not on_gpu and not versions["maxsim-cpu"]:
        print("\nmaxsim-cpu is not installed, so it is not compared.")
    where: dict[str, Any] = {
        "command": command_line("maxsim", argv),
        "commit": commit(),
        "device": name,
        "versions": versions,
    }
    where |= {"machine": machine(), "cuda": torch.version.cuda, "copy_gb_s": round(bandwidth, 1)}
    write_report(args.out, {**where, "rows": table})


if __name__ == "__main__":
    main()
