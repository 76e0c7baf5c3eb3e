"""Measures retrieval latency and how much time stored tokens save in step 2.

    python -m benchmarks.retrieval --profile embedded --index INDEX --queries test.csv --query-images queries

Times are wall-clock times after the images are decoded, as in `omgm evaluate`. At batch size 1 every question is asked
once, so the steps' article caches fill along the way. Step 2 then runs on the same candidates in three ways: with the
index's stored tokens; computing tokens, with each candidate's image encoded once; and computing them as the paper's
published code does, encoding the image again for every section. All three use `FusionRerank`. Candidates' images are
decoded beforehand, from the index's thumbnails.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from benchmarks.frame import arguments
from evaluation.datasets import Question, find_query_image
from evaluation.metrics import percentile
from indexes.builder.stages import section_texts
from indexes.store.index import Index
from omgm.commands.common import add_index, add_json, add_profile, add_questions, load_questions, profile_of
from omgm.opening import open_retriever
from retriever.images import load_image
from retriever.pipeline import Retriever
from retriever.protocols import FusionEncoder
from retriever.step2_rerank import FusionRerank
from retriever.types import Query, StoredTokens

Encode = Callable[[Image.Image, list[str]], torch.Tensor]
_WARM_UP = 2
_FEWEST_BATCHES = 20


def latency(retriever: Retriever[Index], queries: Sequence[Query], batch: int) -> dict[str, Any]:
    """Measures median and 95th percentile of a batch in milliseconds, for retrieval and each step."""
    count = max(_FEWEST_BATCHES, -(-len(queries) // batch))
    timings: dict[str, list[float]] = {}
    for number in range(-_WARM_UP, count):
        asked = [queries[i % len(queries)] for i in range(number * batch, (number + 1) * batch)]
        started = time.perf_counter()
        results = retriever.retrieve(asked)
        spent = (time.perf_counter() - started) * 1000
        if number >= 0:
            for name, value in {"retrieve": spent, **results[0].timings_ms}.items():
                timings.setdefault(name, []).append(value)
    figures = {name: {"p50": percentile(v, 50), "p95": percentile(v, 95)} for name, v in timings.items()}
    rate = 1000 * batch * count / sum(timings["retrieve"])
    return {"batch": batch, "batches": count, "queries_per_s": round(rate, 1), "ms": figures}


class RecomputedTokens:
    """An `EntityIndex` that computes section tokens on request.

    Args:
        index: The index that provides everything else.
        encode: Computes the tokens of an image with texts.
        images: Decoded main images by row.
    """

    def __init__(self, index: Index, encode: Encode, images: dict[int, Image.Image]) -> None:
        self._index, self._encode, self._images = index, encode, images
        self._owners: dict[range, int] = {}
        self.name, self.search = index.name, index.search
        self.entity, self.row_of, self.image_path = index.entity, index.row_of, index.image_path

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._index)

    def section_rows(self, row: int) -> range:
        """Returns the token rows of the sections of an entity."""
        span = self._index.section_rows(row)
        if span:
            self._owners[span] = row
        return span

    token_rows = section_rows  # its index has no labeled images

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Computes the normalized tokens of spans that `section_rows` returned."""
        parts, first = [torch.zeros(0, *self._index.manifest.token_shape)], []
        for span in spans:
            first.append(sum(map(len, parts)))
            if span:
                row = self._owners[span]
                texts = section_texts(self._index.entity(row))
                parts.append(functional.normalize(self._encode(self._images[row], texts), dim=-1))
        return StoredTokens(torch.cat(parts), None, np.array(first, np.int64))


def recomputation(retriever: Retriever[Index], queries: Sequence[Query]) -> dict[str, Any]:
    """Measures step 2 for single queries with stored and with computed tokens, medians in milliseconds.

    Raises:
        ValueError: The pipeline does not start with step 1 and `FusionRerank`.
    """
    first, second = retriever.steps[:2]
    if not isinstance(second, FusionRerank):
        raise ValueError("the second step does not use stored tokens, so there is nothing to compare")
    index, fusion = retriever.index, second.fusion
    candidates = [first.start([query])([[]]) for query in queries]
    rows = {candidate.row for [found] in candidates for candidate in found}
    paths = {row: path for row in rows if (path := index.image_path(row)) is not None}
    images = {row: load_image(path) for row, path in paths.items()}
    steps = {
        "stored": second,
        "image_once": _computing(second, index, lambda image, texts: fusion.encode_sections([image], [texts]), images),
        "as_published": _computing(second, index, _once_per_section(fusion), images),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    difference = 0.0
    second.start(queries[:1])(copy.deepcopy(candidates[0]))  # the first call pays for lazy initialization
    for query, found in zip(queries, candidates, strict=True):
        scores = {}
        for name, step in steps.items():
            given = copy.deepcopy(found)
            started = time.perf_counter()
            [ranked] = step.start([query])(given)
            times[name].append((time.perf_counter() - started) * 1000)
            scores[name] = {candidate.row: candidate.score for candidate in ranked}
        for name in ("image_once", "as_published"):
            gaps = [abs(scores[name][row] - score) for row, score in scores["stored"].items()]
            difference = max([difference, *gaps])
    medians = {name: percentile(values, 50) or 0.0 for name, values in times.items()}
    sections = [sum(len(index.section_rows(candidate.row)) for candidate in found) for [found] in candidates]
    return {
        "queries": len(queries),
        "candidates": percentile([len(found) for [found] in candidates], 50),
        "sections": percentile(sections, 50),
        "p50_ms": medians,
        "ratio": {name: round(medians[name] / medians["stored"], 1) for name in ("image_once", "as_published")},
        "largest_score_difference": round(difference, 6),
    }


def _computing(step: FusionRerank, index: Index, encode: Encode, images: dict[int, Image.Image]) -> FusionRerank:
    return FusionRerank(step.fusion, RecomputedTokens(index, encode, images), step.alpha, step.mode)


def _once_per_section(fusion: FusionEncoder) -> Encode:
    return lambda image, texts: fusion.encode([image] * len(texts), texts)


def read_queries(questions: Sequence[Question], images: Path, limit: int) -> list[Query]:
    """Returns up to `limit` queries, spread over the questions, with decoded images; skips questions without one."""
    queries = []
    for question in questions[:: max(1, -(-len(questions) // limit))]:
        path = find_query_image(images, question.image_id)
        if path is not None:
            queries.append(Query(load_image(path), question.question, question.id))
    if not queries:
        raise ValueError(f"{images}: contains none of the questions' images")
    return queries


def as_text(report: dict[str, Any]) -> str:
    """Returns the report as Markdown."""
    machine = report["machine"]
    lines = [
        f"{report['entities']} entities; {machine['threads']} threads, {machine['cpus']} CPUs, {machine['cpu']}",
        "",
    ]
    steps = [name for name in report["latency"][0]["ms"] if name != "retrieve"]
    lines.append("| batch | p50 ms | p95 ms | " + "".join(f"{step} p50 | " for step in steps) + "queries/s |")
    lines.append("| --- " * (len(steps) + 4) + "|")
    for row in report["latency"]:
        each = " | ".join(f"{row['ms'][step]['p50']:.1f}" for step in steps)
        whole = row["ms"]["retrieve"]
        lines.append(f"| {row['batch']} | {whole['p50']:.1f} | {whole['p95']:.1f} | {each} | {row['queries_per_s']} |")
    if step2 := report["step2"]:
        lines += ["", f"| step 2, {step2['candidates']:g} candidates, {step2['sections']:g} sections | ms | ratio |"]
        lines += ["| --- | --- | --- |", f"| stored tokens | {step2['p50_ms']['stored']:.1f} | 1 |"]
        for name, what in (("image_once", "computed, each image once"), ("as_published", "computed, as published")):
            lines.append(f"| {what} | {step2['p50_ms'][name]:.0f} | {step2['ratio'][name]} |")
        lines += [
            "",
            f"Largest score difference: {step2['largest_score_difference']:g} ({step2['queries']} queries)",
        ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, out="")
    add_profile(parser)
    add_index(parser)
    add_questions(parser)
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="questions to ask (%(default)s)")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16], metavar="N", help="batch sizes (1 16)")
    parser.add_argument("--recompute", type=int, default=3, metavar="N", help="queries to compute tokens for; 0: none")
    add_json(parser)
    args = parser.parse_args(argv)
    if min(args.limit, *args.batches) < 1 or args.recompute < 0:
        parser.error("--limit and --batches must be at least 1, --recompute at least 0")
    profile = profile_of(args)
    queries = read_queries(load_questions(args), args.query_images, args.limit)
    retriever = open_retriever(profile, args.index)
    index = retriever.index
    report = {
        "profile": profile.name,
        "entities": len(index),
        "machine": {"cpus": os.cpu_count(), "threads": torch.get_num_threads(), "cpu": _cpu()},
        "latency": [latency(retriever, queries, batch) for batch in args.batches],
        "step2": recomputation(retriever, queries[: args.recompute]) if args.recompute else None,
    }
    print(json.dumps(report, indent=2) if args.json else as_text(report))


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


if __name__ == "__main__":
    main()
