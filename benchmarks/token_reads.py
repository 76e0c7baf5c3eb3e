"""Times how the tokens of a batch's candidates are read from disk, with a cold and a warm page cache.

    python benchmarks/token_reads.py --folder DIR --gigabytes 8 --batches 1 16 --out FILE

A file of random tokens is written to `--folder` and removed at the end; Linux drops it from the page cache before each
cold read. A query has 20 candidates with 20 sections each, at random places. `store` is this project's token store,
`faults` copies from a memory map, one page fault after the other, and `advice` does so after madvise(MADV_WILLNEED).
The result depends on the disk, on its read-ahead and on the number of cores. Milliseconds are medians.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.maxsim import as_markdown
from evaluation.commit import commit
from indexes.row_file import RowFile
from indexes.tokens import TokenStore
from retriever.files import write_json
from retriever.token_codec import TokenCodec

CANDIDATES, SECTIONS = 20, 20
SHAPES = {"int8": (32, 768), "bit1": (32, 128)}
"""Codec and shape of a section's tokens, of the paper profile and of the embedded one."""
_BLOCK = 64 << 20


def write_array(path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """Writes an array of random bytes."""
    row = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    block = np.random.default_rng(0).bytes(_BLOCK // row * row)
    with path.open("wb") as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for left in range(shape[0] * row, 0, -len(block)):
            file.write(block[:left])
        file.flush()
        os.fsync(file.fileno())


def by_faults(path: Path, spans: Sequence[range], advice: bool = False) -> NDArray[Any]:
    """Copies spans from a memory map."""
    rows: np.memmap[Any, Any] = np.load(path, mmap_mode="r")
    size = rows.nbytes // len(rows)
    for span in spans if advice else ():
        start = (rows.offset + span.start * size) // mmap.PAGESIZE * mmap.PAGESIZE
        rows._mmap.madvise(mmap.MADV_WILLNEED, start, rows.offset + span.stop * size - start)  # type: ignore[attr-defined]
    return np.concatenate([rows[span.start : span.stop] for span in spans])


def measure(
    folder: Path, codec: TokenCodec, shape: tuple[int, int], size: int, batches: Sequence[int], rounds: int
) -> list[dict[str, Any]]:
    """Writes a store of about `size` bytes and returns a row for each batch size and way to read."""
    stored = codec.stored_shape(shape)
    count = size // codec.bytes_per_section(shape)
    paths = [folder / f"{codec.name}.npy", folder / f"{codec.name}_scales.npy"]
    write_array(paths[0], codec.dtype, (count, *stored))
    write_array(paths[1], "float16", (count, stored[0]))
    store = TokenStore(codec, RowFile(paths[0]), RowFile(paths[1]))
    used = paths if codec.scaled else paths[:1]
    ways: dict[str, Callable[[Sequence[range]], object]] = {
        "faults": lambda spans: [by_faults(path, spans) for path in used],
        "advice": lambda spans: [by_faults(path, spans, advice=True) for path in used],
        "store": store.gather,
    }
    generator, table = np.random.default_rng(1), list[dict[str, Any]]()
    for batch in batches:
        times = {way: (list[float](), list[float]()) for way in ways}
        for way, read in [*ways.items()] * rounds:
            starts = generator.integers(0, count - SECTIONS, batch * CANDIDATES).tolist()
            spans = [range(start, start + SECTIONS) for start in starts]
            for path in paths:
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for cold_or_warm in times[way]:
                started = time.perf_counter()
                read(spans)
                cold_or_warm.append((time.perf_counter() - started) * 1000)
        megabytes = round(batch * CANDIDATES * SECTIONS * codec.bytes_per_section(shape) / 1e6, 2)
        for way, (cold, warm) in times.items():
            row = {"codec": codec.name, "batch": batch, "mb": megabytes, "way": way}
            table.append(row | {"cold_ms": median(cold), "warm_ms": median(warm)})
    for path in paths:
        path.unlink()
    return table


def median(times: Sequence[float]) -> float:
    """Returns the median, rounded."""
    return round(float(np.median(times)), 2)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), metavar="DIR", help="(%(default)s)")
    parser.add_argument("--gigabytes", type=float, default=8, metavar="N", help="size of the file (%(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16], metavar="B", help="queries (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="cold reads of each kind (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write JSON")
    args = parser.parse_args(argv)
    if not hasattr(os, "posix_fadvise"):
        parser.error("the page cache can only be emptied on Linux")
    table = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name, shape in SHAPES.items():
            size = int(args.gigabytes * 1e9)
            table += measure(Path(folder), TokenCodec.parse(name), shape, size, args.batches, args.rounds)
    device = f"{os.cpu_count()} cores"
    print(f"{device}, {args.gigabytes} GB in {args.folder}\n\n{as_markdown(table)}")
    if args.out:
        command = " ".join(["python", "benchmarks/token_reads.py", *(sys.argv[1:] if argv is None else argv)])
        report = {"command": command, "commit": commit(), "device": device, "torch": torch.__version__, "rows": table}
        write_json(args.out, report)


if __name__ == "__main__":
    main()
