"""Times step 1's exact search over many vectors: PyTorch on the device against FAISS.

    python -m benchmarks.gpu_search [--vectors 2000000] [--length 1280] [--batches 1 8 16 32] [--out FILE]

`overlap` is the share of PyTorch's 20 results that a method finds too, `difference` the largest difference between
their scores. GB/s counts the vectors, which every search reads once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import faiss
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.device_timer import DeviceTimer, Row
from benchmarks.frame import arguments, default_device, device_name, machine, recorder, write_report
from indexes.store.search import DeviceSearch, FaissSearch, Search
from indexes.store.search_faiss_gpu import FaissGpuVectors
from retriever.types import IntArray

K = 20
BLOCK = 1 << 17
ON_CPU = "faiss, on the CPU"
"""For comparison, and with the first batch size only: it scans once per query."""


def make_vectors(count: int, length: int, device: str) -> Tensor:
    """Returns random unit vectors, float16 [count, length], on a device."""
    vectors = torch.empty(count, length, dtype=torch.float16, device=device)
    for part in vectors.split(BLOCK):
        part.copy_(functional.normalize(torch.randn(part.shape, device=device), dim=1))
    return vectors


def torch_search(vectors: Tensor) -> Search:
    """Returns the search of this project on a GPU: a scan by matrix products."""
    return DeviceSearch(vectors, torch.arange(len(vectors), device=vectors.device))


def faiss_on_cpu(vectors: Tensor) -> Search:
    """Returns the search of this project on a CPU: FAISS's scan of float16 vectors."""
    index = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    for part in vectors.split(BLOCK):
        index.add(part.float().cpu().numpy())
    return FaissSearch(index)


def methods(device: str) -> dict[str, Callable[[Tensor], Search]]:
    """Returns the methods that can be measured, by name; what `search.gpu` names comes first."""
    found: dict[str, Callable[[Tensor], Search]] = {"torch": torch_search}
    if device == "cuda" and hasattr(faiss, "StandardGpuResources"):
        found["faiss"] = FaissGpuVectors.of
    return found | {ON_CPU: faiss_on_cpu}


def measure(timer: DeviceTimer, vectors: Tensor, batches: Sequence[int]) -> Iterator[Row]:
    """Measures each method for each batch size and yields its row."""
    queries = {size: functional.normalize(torch.randn(size, vectors.shape[1]), dim=1) for size in batches}
    reference = {size: torch_search(vectors).search(asked.to(vectors.device), K) for size, asked in queries.items()}
    for name, method in methods(timer.device).items():
        search = method(vectors)
        for size in batches[:1] if name == ON_CPU else batches:
            asked = queries[size]
            scores, rows = search.search(asked, K)
            expected_scores, expected = reference[size]
            row = timer.row(name, size, partial(search.search, asked.to(vectors.device), K), vectors.nbytes)
            row |= {"overlap": overlap(rows, expected), "difference": float(np.abs(scores - expected_scores).max())}
            yield row


def overlap(found: IntArray, expected: IntArray) -> float:
    """Returns the share of expected rows [B, K] that were found, in any order."""
    pairs = zip(found.tolist(), expected.tolist(), strict=True)
    return sum(len(set(one) & set(other)) for one, other in pairs) / expected.size


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = arguments(__doc__, lines=True)
    parser.add_argument("--vectors", type=int, default=2_000_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--length", type=int, default=1280, metavar="N", help="(%(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16, 32], metavar="N", help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="timed calls of each search (%(default)s)")
    args = parser.parse_args(argv)
    device = default_device()
    torch.manual_seed(0)
    timer, record = DeviceTimer(device, args.runs), recorder(args.lines, benchmark="search")
    vectors = make_vectors(args.vectors, args.length, device)
    timer.find_peaks(512, min(vectors.nbytes, 4 << 30), torch.float16 if device == "cuda" else torch.float32)
    print(f"{device_name()}, {args.vectors} vectors of length {args.length}, copy {timer.peak_gbps:.1f} GB/s\n")
    print("| method | batch | p50 ms | p95 ms | GB/s (share) | overlap | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for row in measure(timer, vectors, args.batches):
        rows.append(row)
        record({"vectors": args.vectors, "length": args.length, **row})
        print(
            f"| {row['part']} | {row['batch']} | {row['p50_ms']} | {row['p95_ms']} "
            f"| {row['gbps']} ({row['of_peak_bytes']:.0%}) | {row['overlap']:.3f} | {row['difference']:.1e} |",
            flush=True,
        )
    if "faiss" not in methods(device):
        print("\nThe installed FAISS has no GPU support or there is no GPU, so it is compared on the CPU only.")
    sizes = {"vectors": args.vectors, "length": args.length}
    write_report(args.out, {"machine": machine(), **sizes, "copy_gbps": round(timer.peak_gbps, 1), "rows": rows})


if __name__ == "__main__":
    main()
