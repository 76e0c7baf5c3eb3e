"""Serves a made-up index whole and in parts, each in a process, and measures what a part takes and what asking costs.

    python -m benchmarks.in_parts --parts 1 2 4 --folder artifacts/bench-parts --out artifacts/parts.json

`parts.json` has, per number of parts:

- `split_s`, `split_peak_mb`: seconds and peak memory of the split of the whole index
- `bytes`, `mapped_mb`, `rss_mb`: of each part: its files, how much of them is in memory, and all memory of its process
- `cpu_ms`, `ms_p50`: of the front's thread and in all, for a search for one query and the reading of 20 candidates,
  each with article, thumbnail and tokens; `whole` has the same within one process
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.frame import Row, arguments, commit, write_report
from benchmarks.made_up import ClusteredVectors, StandIn, articles, write_images
from benchmarks.processes import Meter, peak_memory, server
from benchmarks.scale import size_of
from indexes.builder.build import build_index
from indexes.builder.plan import BuildPlan
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.parts.index import PartedIndex, front_folder
from indexes.parts.remote import Parts
from indexes.parts.split import split_index
from indexes.store.index import Index
from omgm.commands.demo import omgm
from retriever.files import write_lines

_QUERIES = 100


def write_index(folder: Path, entities: int, dimension: int) -> Path:
    """Returns the folder of an index of made-up articles, with an image for each; builds it if it is not there."""
    out, images = folder / "index", folder / "images"
    if not (out / "manifest.json").exists():
        write_images(images, [f"{number}.jpg" for number in range(entities)], 64, 100)
        write_lines(folder / "kb.jsonl", articles(entities))
        models = StandIn(ClusteredVectors(entities, dimension))
        source = KnowledgeArticles(KnowledgeBase(kb=folder / "kb.jsonl", images=images))
        of: dict[str, Any] = {"summarizer": models, "encoder": models, "fusion": models}
        build_index(BuildPlan(articles=source, out=out, batch_size=256, **of))
    return out


def ask(index: Index, queries: torch.Tensor) -> Iterator[tuple[float, float]]:
    """Asks single queries; yields the milliseconds of each, and those of this thread's CPU time."""
    for query in queries:
        started, used = time.perf_counter(), time.thread_time()
        with index.pinned() if isinstance(index, PartedIndex) else nullcontext():
            rows = index.search(query[None], 20)[1][0].tolist()
            index.gather([index.token_rows(row) for row in rows])
            for row in rows:
                index.entity(row)
                path = index.image_path(row)
                assert path is not None and path.read_bytes()
        yield 1000 * (time.perf_counter() - started), 1000 * (time.thread_time() - used)


def medians(index: Index, queries: torch.Tensor) -> Row:
    """Returns the medians of `ask`."""
    wall, cpu = zip(*ask(index, queries), strict=True)
    return {"ms_p50": round(statistics.median(wall), 2), "cpu_ms": round(statistics.median(cpu), 2)}


def resident(process: subprocess.Popen[bytes], folder: Path) -> float:
    """Returns the resident memory of a process in MB that files of a folder are mapped to."""
    total, counts = 0, False
    for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        if not line[0].isupper():  # the beginning of a mapping, with its path
            counts = str(folder.resolve()) in line
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1])
    return round(total * 1024 / 1e6, 2)


def measure(parts: Sequence[Path], queries: torch.Tensor) -> Row:
    """Serves parts, each in a process, and asks them."""
    with ExitStack() as stack:
        running = [stack.enter_context(server(*omgm("serve", "--index", part))) for part in parts]
        remote = Parts([f"http://{host}:{port}" for _, (host, port) in running])
        found = medians(PartedIndex(remote, front_folder(remote)), queries)
        memory = [resident(process, part) for (process, _), part in zip(running, parts, strict=True)]
        return found | {"mapped_mb": memory, "rss_mb": [peak_memory(process.pid) for process, _ in running]}


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--entities", type=int, default=22_000)
    parser.add_argument("--dimension", type=int, default=1280)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--folder", type=Path, required=True, help="where indexes go")
    args = parser.parse_args(argv)
    index = write_index(args.folder / "whole", args.entities, args.dimension)
    rows = np.sort(np.random.default_rng(1).permutation(args.entities)[:_QUERIES])
    queries = torch.from_numpy(ClusteredVectors(args.entities, args.dimension).queries(rows))
    whole = Index.open(index)
    report: Row = {"commit": commit(), "entities": len(whole), "sections": whole.manifest.counts.sections}
    report |= {"whole": medians(whole, queries) | {"bytes": size_of(index)}}
    for count in args.parts:
        meter = Meter()
        with meter.stage("split"):
            parts = [*split_index(index, count, args.folder / f"in {count}")]
        own = measure(parts, queries) | {"bytes": [size_of(part) for part in parts]}
        report[str(count)] = own | {"split_s": meter.seconds["split"], "split_peak_mb": meter.peak_mb["split"]}
        print(count, report[str(count)], file=sys.stderr)
    write_report(args.out, report)


if __name__ == "__main__":
    main()
