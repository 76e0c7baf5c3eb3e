r"""Step 2's late interaction over stored tokens: this project's kernels against plain ways to do the same.

    python benchmarks/maxsim.py [--out maxsim.json]
    python benchmarks/maxsim.py --device cpu --batches 1 4 --lengths 128 768 --rows 2000

A batch has 20 candidates a query, each with 1 to 60 sections of 32 tokens, somewhere in a store of random unit tokens.
On a GPU the Triton kernel, by the number of sections that a program takes, stands against PyTorch as it is usually
written: candidates gathered into a padded tensor, one batched product, maximum, sum. All are captured in CUDA graphs
and timed by events, so Python does not count. On a CPU the PyTorch path stands against the same and against maxsim-cpu
(`pip install maxsim-cpu==0.1.0`), which reads float32 alone. Batches take turns over `--sets` lists of candidates, so
that tokens come from memory and not from a cache. `difference` is the largest one to a float64 computation of a
section's score, as a mean over query tokens. GB/s counts the sections that have to be read, whatever a method moves.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evaluation.metrics import percentile
from evaluation.run import commit
from retriever.files import write_whole
from retriever.kernels import max_sim_pairs
from retriever.quantize import quantize_tokens

TOKENS = 32
TILES = (1, 2, 4, 8)
_CHUNK = 4096
_WARM_UP = 3
_MAXSIM_CPU_LENGTH = 256
"""maxsim-cpu 0.1.0 gave wrong scores for longer tokens (512, 768), and crashed once."""

Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Store:
    """Section tokens [R, M, H], with scales [R, M] where they are int8."""

    name: str
    values: Tensor
    scales: Tensor | None

    def bytes_of(self, sections: int) -> int:
        """Returns what that many sections take."""
        parts = [self.values] if self.scales is None else [self.values, self.scales]
        return sections * sum(part[0].nbytes for part in parts)


@dataclass(frozen=True)
class Batch:
    """Queries [B, 32, H] and their pairs, as `max_sim_pairs` takes them."""

    queries: Tensor
    query_of: Tensor
    first: Tensor
    counts: Tensor
    total: int
    most: int


def make_store(rows: int, length: int, dtype: torch.dtype, device: torch.device) -> Store:
    """Returns a store of random unit tokens."""
    values = torch.empty(rows, TOKENS, length, dtype=dtype, device=device)
    scales = torch.empty(rows, TOKENS, dtype=torch.float16, device=device) if dtype == torch.int8 else None
    for at in range(0, rows, _CHUNK):
        part = slice(at, at + _CHUNK)
        unit = torch.nn.functional.normalize(torch.randn(values[part].shape, device=device), dim=-1)
        if scales is None:
            values[part] = unit
        else:
            values[part], scales[part] = quantize_tokens(unit)
    return Store(str(dtype).removeprefix("torch."), values, scales)


def make_batch(size: int, entities: int, most: int, store: Store, rng: np.random.Generator) -> Batch:
    """Returns queries with ragged candidates anywhere in the store."""
    device, length = store.values.device, store.values.shape[2]
    counts = rng.integers(1, most + 1, size * entities)
    first = rng.integers(0, len(store.values) - counts + 1)
    queries = torch.nn.functional.normalize(torch.randn(size, TOKENS, length, device=device), dim=-1)
    pairs = (torch.from_numpy(array).to(device) for array in (np.arange(size).repeat(entities), first, counts))
    return Batch(queries, *pairs, int(counts.sum()), int(counts.max()))


def kernel(batch: Batch, store: Store, tile: int | None = None) -> Run:
    """Returns this project's way; `tile` is for Triton alone."""
    function, options = max_sim_pairs, {}
    if tile is not None:
        from retriever.kernels import maxsim_triton

        function, options = maxsim_triton.max_sim_pairs, {"tile": tile}
    given = (batch.queries, store.values, store.scales, batch.query_of, batch.first, batch.counts)
    return lambda: function(*given, total=batch.total, most=batch.most, **options)[0]


def padded(batch: Batch, store: Store) -> Run:
    """Returns the usual way: gather, pad, one batched product. Where to gather from is worked out beforehand."""
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


def maxsim_cpu(batch: Batch, store: Store) -> Run:
    """Returns maxsim-cpu's way, a call a pair: its sections are neighbors, so nothing is copied."""
    library = importlib.import_module("maxsim_cpu")

    values, queries = store.values.numpy(), batch.queries.numpy()
    pairs = list(zip(batch.query_of.tolist(), batch.first.tolist(), batch.counts.tolist(), strict=True))

    def run() -> Tensor:
        found = [library.maxsim_scores(queries[q], values[first : first + count]) for q, first, count in pairs]
        scores = torch.from_numpy(np.concatenate(found))
        scores.new_tensor([part.max() for part in found])
        return scores

    return run


def exact(batch: Batch, store: Store) -> Tensor:
    """Returns the sections' scores in float64."""
    found = []
    for query, first, count in zip(batch.query_of.tolist(), batch.first.tolist(), batch.counts.tolist(), strict=True):
        tokens = store.values[first : first + count].double()
        if store.scales is not None:
            tokens *= store.scales[first : first + count, :, None]
        found.append((tokens @ batch.queries[query].double().T).amax(dim=1).sum(dim=-1))
    return torch.cat(found)


def methods(store: Store) -> dict[str, Callable[[Batch, Store], Run]]:
    """Returns what can run on the store's device with its dtype."""
    if store.values.is_cuda:
        tiles = {f"triton, {tile} a program": lambda b, s, t=tile: kernel(b, s, t) for tile in TILES}
        return tiles | {"padded bmm": padded}
    found: dict[str, Callable[[Batch, Store], Run]] = {"torch, a product a pair": kernel, "padded bmm": padded}
    if store.name == "float32" and store.values.shape[2] <= _MAXSIM_CPU_LENGTH and _version("maxsim-cpu"):
        found["maxsim-cpu"] = maxsim_cpu
    return found


def milliseconds(runs: Sequence[Run], rounds: int, cuda: bool) -> list[float]:
    """Returns the time of each run of each of `runs`, in turns."""
    for run in list(runs)[:_WARM_UP]:
        run()
    timed = [_captured(run) for run in runs] if cuda else [_clocked(run) for run in runs]
    for once in timed[:_WARM_UP]:
        once()
    return [once() for _ in range(rounds) for once in timed]


def _clocked(run: Run) -> Callable[[], float]:
    def once() -> float:
        started = time.perf_counter()
        run()
        return (time.perf_counter() - started) * 1000

    return once


def _captured(run: Run) -> Callable[[], float]:
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
    """Returns GB/s of a large copy, bytes read and written."""
    source = torch.ones((2**30 if device.type == "cuda" else 2**27) // 4, device=device)
    target = torch.empty_like(source)
    taken = milliseconds([lambda: target.copy_(source)], 20, device.type == "cuda")
    return 2 * source.nbytes / float(np.median(taken)) / 1e6


def measure(store: Store, batches: Sequence[Batch], rounds: int, bandwidth: float) -> Iterator[dict[str, Any]]:
    """Yields a row for each method."""
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


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the rows as a table."""
    names = list(rows[0])
    lines = [[name.replace("_", " ") for name in names], ["---"] * len(names)]
    lines += [[str(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(argv: Sequence[str] | None = None) -> None:
    cuda = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if cuda else "cpu", help="(%(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", metavar="B", help="queries at once (GPU: 1 8 32, CPU: 1 4)")
    parser.add_argument("--lengths", type=int, nargs="+", metavar="H", help="of a token (GPU: 768, CPU: 128 768)")
    parser.add_argument("--rows", type=int, metavar="R", help="sections in the store (GPU: 200000, CPU: 2000)")
    parser.add_argument("--entities", type=int, default=20, metavar="K", help="candidates a query (%(default)s)")
    parser.add_argument("--most", type=int, default=60, metavar="S", help="a candidate has 1 to S (%(default)s)")
    parser.add_argument("--sets", type=int, default=8, metavar="N", help="lists of candidates in turns (%(default)s)")
    parser.add_argument("--rounds", type=int, metavar="N", help="turns (GPU: 25, CPU: 4)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write JSON")
    args = parser.parse_args(argv)
    on_gpu, device = args.device == "cuda", torch.device(args.device)
    if on_gpu and (not cuda or not _version("triton")):
        parser.error("--device cuda needs a CUDA device and triton")
    sizes, lengths = (
        args.batches or ([1, 8, 32] if on_gpu else [1, 4]),
        args.lengths or ([768] if on_gpu else [128, 768]),
    )
    rows, rounds = args.rows or (200_000 if on_gpu else 2_000), args.rounds or (25 if on_gpu else 4)
    if min(*sizes, *lengths, args.entities, args.most, args.sets, rounds) < 1 or rows < args.most:
        parser.error("all numbers are 1 or more, and --rows is at least --most")
    # maxsim-cpu reads it when it is imported: as many threads as PyTorch uses.
    os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
    torch.manual_seed(0)
    bandwidth = copy_bandwidth(device)
    table: list[dict[str, Any]] = []
    for length in lengths:
        for dtype in (torch.float16, torch.int8) if on_gpu else (torch.float32, torch.float16, torch.int8):
            store, rng = make_store(rows, length, dtype, device), np.random.default_rng(0)
            for size in sizes:
                batches = [make_batch(size, args.entities, args.most, store, rng) for _ in range(args.sets)]
                table += measure(store, batches, rounds, bandwidth)
    name = torch.cuda.get_device_name(device) if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    versions = {package: _version(package) for package in ("torch", "triton", "maxsim-cpu", "numpy")}
    print(f"{name}, copy {bandwidth:.1f} GB/s, PyTorch {versions['torch']}\n\n{as_markdown(table)}")
    if not on_gpu and not versions["maxsim-cpu"]:
        print("\nmaxsim-cpu is not installed: not compared.")
    if args.out:
        command = ["python", "benchmarks/maxsim.py", *(sys.argv[1:] if argv is None else argv)]
        report: dict[str, Any] = {
            "command": " ".join(command),
            "commit": commit(),
            "device": name,
            "versions": versions,
        }
        report |= {"cuda": torch.version.cuda, "copy_gb_s": round(bandwidth, 1), "rows": table}
        write_whole(args.out, json.dumps(report, indent=2).encode() + b"\n")


if __name__ == "__main__":
    main()
