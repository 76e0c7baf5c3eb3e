"""Builds, searches and verifies indexes of many entities, with stand-ins for the models.

    python -m benchmarks.scale --entities 10000 100000 --folder artifacts/bench-scale --out artifacts/scale.json

The knowledge base is made up in E-VQA's shape (`made_up.py`), with an image for every tenth article. The stand-in
encoder is fast: it derives a vector from each entity's number. Vectors lie in clusters, and those in clusters of
clusters, with far more variance in some directions than in others, like those of trained encoders (one cluster per 50
entities: species of a genus, churches of a town). In uniform noise of hundreds of dimensions, all neighbors would be
almost equally far away: the best 20 would be a matter of chance, and approximate search could not work. A query is an
entity's vector plus noise, at a cosine of about 0.9.

For every number of entities, two parts run, each in its own process: `build` (`build_index`, then opening with all
checksums verified) and `search` (each kind of entity index over the same vectors, without articles).
`scale.json` has, per number of entities:

- `build_s`, `peak_rss_mb`: seconds and peak resident memory of both stages, including pages of mapped files
- `index_bytes`: size of the index
- `search`: per kind `build_s`, `peak_rss_mb`, `bytes`, `faiss`, `parameters`, `rescored`, `recall@20_at_build`
- `search_ms_p50`, `recall@20_against_exact`: per kind, for single queries that were not used by the build
- `filtered_ms_p50`, `filtered_recall@20`: the same of searches among a random hundredth of the entities
- `engines`: with `--engine lancedb --uri FOLDER`, what `engines.py` measures, instead of the parts
- `update_ms_p50`: from a change to its acknowledgment, without a service; `found_ms_p50`: until a search finds it
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from benchmarks.engines import measure_engine
from benchmarks.frame import arguments, commit, write_report
from benchmarks.made_up import ClusteredVectors, StandIn, articles, write_images
from benchmarks.processes import Meter
from indexes.article_images import MainImage
from indexes.builder.build import build_index
from indexes.builder.plan import BuildPlan
from indexes.growing import release
from indexes.knowledge.article_source import KnowledgeArticles
from indexes.knowledge.knowledge_base import KnowledgeBase
from indexes.live.articles import Article
from indexes.live.editor import Editor
from indexes.live.index import LiveIndex
from indexes.store.engines import Search
from indexes.store.entity_index import open_search
from indexes.store.index import Index
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind
from indexes.store.recall import ExactSearch, HeldOutQueries, mixed_queries
from indexes.store.search_kinds import write_search
from retriever.files import write_lines
from retriever.types import BoolArray, Entity, FloatArray, IntArray, Section

KINDS: tuple[SearchKind, ...] = ("flat", "sq8", "hnsw", "ivf-pq")
_QUERIES = 500
_SHARE = 0.01


def size_of(folder: Path) -> int:
    """Returns the total size of all files in a folder in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_build(entities: int, dimension: int, folder: Path) -> dict[str, Any]:
    """Builds an index of a generated knowledge base and opens it with all checksums verified."""
    kb, images = folder / "kb.jsonl", folder / "images"
    if not kb.exists():
        names = [f"{number}.jpg" for number in range(0, entities, 10)]
        write_images(images, names, 32, len(names))
        write_lines(kb, articles(entities))
    meter, models, out = Meter(), StandIn(ClusteredVectors(entities, dimension)), folder / "index"
    shutil.rmtree(out, ignore_errors=True)
    models_of: dict[str, Any] = {"summarizer": models, "encoder": models, "fusion": models}
    source = KnowledgeArticles(KnowledgeBase(kb=kb, images=images))
    plan = BuildPlan(articles=source, out=out, batch_size=256, **models_of)
    with meter.stage("all"):
        index = build_index(plan)
    with meter.stage("verify"):
        Index.open(out, verify=True)
    record = index.manifest.search
    return {
        "build_s": meter.seconds,
        "peak_rss_mb": meter.peak_mb,
        "index_bytes": size_of(out),
        "kb_bytes": kb.stat().st_size,
        "sections": index.manifest.counts.sections,
        "entity_index": None if record is None else str(record),
    } | measure_updates(out, models)


def measure_updates(folder: Path, models: StandIn) -> dict[str, float | int]:
    """Adds articles with images to an index one by one, and searches for each one's summary at once.

    Returns:
        Medians in ms of the change alone (`update`) and of change and query together (`found`), and the number of
        articles that were `not_found`.
    """
    times, lost = dict[str, list[float]](update=[], found=[]), 0
    with closing(LiveIndex.open(folder, encoder=models, fusion=models, write=True)) as index:
        editor = Editor(index, lambda: models, models, models)
        for number in range(50):
            sections = tuple(Section(f"Part {i}", f"Design {number} is new. " * 30, i) for i in range(4))
            entity = Entity(f"new-{number}", f"Design {number}", sections, f"{number}.png")
            added = Article(entity, MainImage(entity.image), Image.new("RGB", (320, 240), (number, 0, 0)))
            started = time.perf_counter()
            editor.put([added])
            times["update"].append((time.perf_counter() - started) * 1000)
            rows = index.search(models.encode_texts([f"Design {number}"]), 20)[1]
            lost += index.row_of(f"new-{number}") not in rows[0]
            times["found"].append((time.perf_counter() - started) * 1000)
    return {f"{what}_ms_p50": round(statistics.median(values), 1) for what, values in times.items()} | {
        "not_found": lost
    }


class Within(NamedTuple):
    """A search among some rows."""

    inner: Search
    among: BoolArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their length."""
        return self.inner.shape

    def search(self, vectors: torch.Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first."""
        return self.inner.search(vectors, k, self.among)

    def time(self, queries: torch.Tensor) -> float:
        """Returns the median milliseconds of single queries, after one of all that reads the file."""
        self.search(queries, 20)
        times = []
        for query in queries:
            started = time.perf_counter()
            self.search(query[None], 20)
            times.append(1000 * (time.perf_counter() - started))
        return round(statistics.median(times), 3)


def measure_search(entities: int, dimension: int, folder: Path, kinds: Sequence[SearchKind]) -> dict[str, Any]:
    """Builds each kind of entity index over the same vectors and runs single queries."""
    vectors, keys = ClusteredVectors(entities, dimension), folder / "keys.npy"
    array: FloatArray = np.lib.format.open_memmap(keys, mode="w+", dtype=np.float32, shape=(entities, dimension))
    for start in range(0, entities, 4096):
        array[start : start + 4096] = vectors.stored(range(start, min(start + 4096, entities)))
        release(array)
    stored = Keys((array,), np.arange(entities))
    rows = np.sort(np.random.default_rng(3).permutation(entities)[:_QUERIES])
    asked = torch.from_numpy(vectors.queries(rows))
    exact = ExactSearch(stored, asked, 20)
    tuned_on = HeldOutQueries(mixed_queries(stored), "256 mixtures of two stored vectors")
    among = np.random.default_rng(4).random(entities) < _SHARE
    some = ExactSearch(stored._replace(rows=np.flatnonzero(among)), asked, 20)
    names = "search search_ms_p50 recall@20_against_exact filtered_ms_p50 filtered_recall@20"
    found: dict[str, Any] = {name: {} for name in names.split()}
    for kind in kinds:
        out = folder / kind
        out.mkdir(exist_ok=True)
        meter = Meter()
        with meter.stage("build"):
            record = write_search(out, stored, kind, tuned_on)
        with meter.stage("search"):
            search = open_search(out, record)
            found["search_ms_p50"][kind] = Within(search).time(asked)
            found["filtered_ms_p50"][kind] = Within(search, among).time(asked)
        recall, filtered = exact.recall(search), some.recall(Within(search, among))
        found["search"][kind] = {
            "build_s": meter.seconds["build"],
            "peak_rss_mb": meter.peak_mb,
            "bytes": size_of(out),
            "faiss": record.faiss,
            "parameters": record.parameters,
            "rescored": record.rescored,
            "recall@20_at_build": record.recall,
        }
        found["recall@20_against_exact"][kind] = None if recall is None else round(recall, 4)
        found["filtered_recall@20"][kind] = None if filtered is None else round(filtered, 4)
        shutil.rmtree(out)
        print(f"{entities} {kind}: {found['search_ms_p50'][kind]} ms, recall@20 {recall}", file=sys.stderr)
        print(f"of 1 %: {found['filtered_ms_p50'][kind]} ms, recall@20 {filtered}", file=sys.stderr)
    keys.unlink()
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--entities", type=int, nargs="+", default=[10_000])
    parser.add_argument("--dimension", type=int, default=512, help="length of the vectors (%(default)s)")
    parser.add_argument("--folder", type=Path, required=True, help="where knowledge bases and indexes go")
    parser.add_argument("--out", type=Path, required=True, help="scale.json; other numbers of entities there stay")
    parser.add_argument("--parts", nargs="+", choices=["build", "search"], default=["build", "search"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--engine", help="measure this vector database instead: milvus, lancedb, …")
    parser.add_argument("--uri", help="where it is")
    parser.add_argument("--here", action="store_true", help="measure in this process and print the result")
    args = parser.parse_args(argv)
    if args.here:
        folder, (entities,), (part,) = args.folder, args.entities, args.parts
        if part == "build":
            print(json.dumps(measure_build(entities, args.dimension, folder)))
        else:
            print(json.dumps(measure_search(entities, args.dimension, folder, args.kinds)))
        return
    report = json.loads(args.out.read_text()) if args.out.exists() else {"runs": {}}
    encoder = f"stand-in: clustered vectors of length {args.dimension}, no model"
    report |= {"encoder": encoder, "commit": commit(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    for entities in args.entities:
        folder = args.folder / str(entities)
        folder.mkdir(parents=True, exist_ok=True)
        for part in [] if args.engine else args.parts:
            command = [sys.executable, "-m", "benchmarks.scale", "--here", "--entities", str(entities), "--parts", part]
            command += ["--dimension", str(args.dimension), "--folder", str(folder), "--out", str(args.out)]
            done = subprocess.run([*command, "--kinds", *args.kinds], check=True, stdout=subprocess.PIPE, text=True)
            report["runs"].setdefault(str(entities), {}).update(json.loads(done.stdout))
            write_report(args.out, report)
        if args.engine:
            measured = measure_engine(args.engine, args.uri, entities, args.dimension, folder / args.engine)
            report["runs"].setdefault(str(entities), {}).setdefault("engines", {})[args.engine] = measured
            write_report(args.out, report)
    print(f"{args.out}: {', '.join(report['runs'])} entities")


if __name__ == "__main__":
    main()
