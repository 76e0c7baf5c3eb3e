"""Run files and qrels in TREC's formats, for trec_eval and ir_measures, and sections as the passages of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

import numpy as np

from evaluation.metrics import ranked
from evaluation.records import QueryRecord
from indexes.ids import to_column
from retriever.files import replacing

_DEPTH = 20  # sections per query in sections.run


def write_trec(records: Iterable[QueryRecord], out: Path, tag: str) -> None:
    """Writes `qrels.txt` with one `<step>.run` per step, and `qrels.sections.txt` with `sections.run`.

    Ties are ordered by id and written with slightly decreasing scores, because trec_eval reads scores in single
    precision, ignores ranks and breaks ties in its own way. A section is named `<entity>#<its number>` and scored
    1 / rank; the first 20 are listed. White space separates columns, so ids are written by `trec_ids.to_column`.
    """
    with contextlib.ExitStack() as stack:
        files: dict[str, TextIO] = {}

        def write(name: str, lines: Iterable[str]) -> None:
            if name not in files:
                partial = stack.enter_context(replacing(out / name))
                files[name] = stack.enter_context(partial.open("w", encoding="utf-8", newline="\n"))
            files[name].writelines(lines)

        for name in ("qrels.txt", "qrels.sections.txt", "sections.run"):
            write(name, [])
        for record in records:
            query, gold = to_column(record.id), record.gold
            write("qrels.txt", (f"{query} 0 {to_column(entity)} 1\n" for entity in gold.entities))
            for step, ranking in record.rankings.items():
                write(f"{step}.run", _run_lines(query, ranking, tag))
            if gold.section is not None:
                right = (f"{query} 0 {to_column(f'{entity}#{gold.section}')} 1\n" for entity in gold.entities)
                write("qrels.sections.txt", right)
            write("sections.run", _section_lines(query, record, tag))


def _run_lines(query: str, ranking: Sequence[tuple[str, float]], tag: str) -> Iterator[str]:
    pairs = ranked(ranking)
    falling = _falling([score for _, score in pairs])
    for rank, ((entity, _), score) in enumerate(zip(pairs, falling, strict=True), start=1):
        yield f"{query} Q0 {to_column(entity)} {rank} {score} {to_column(tag)}\n"


def _section_lines(query: str, record: QueryRecord, tag: str) -> Iterator[str]:
    order = reading_order([(c.entity, [section.index for section in c.sections]) for c in record.candidates])
    for rank, (entity, section) in enumerate(order[:_DEPTH], start=1):
        name = to_column(f"{entity}#{'' if section is None else section}")
        yield f"{query} Q0 {name} {rank} {1 / rank!r} {to_column(tag)}\n"


def _falling(scores: Sequence[float]) -> Iterator[np.float32]:
    """Yields scores in single precision, lowered where needed so that each is below its predecessor."""
    bound = np.float32(np.inf)
    for score in scores:
        bound = min(np.float32(score), np.nextafter(bound, np.float32(-np.inf)))
        yield bound


S = TypeVar("S")


def reading_order(candidates: Sequence[tuple[str, Sequence[S]]]) -> list[tuple[str, S | None]]:
    """Returns (entity, section) pairs by rank: all sections of the best entity, best first, then the next entity's.

    An entity without sections keeps its rank, with `None`; thus the first pair is always the evidence of the run.

    Example:
        >>> reading_order([("a", [2, 0]), ("b", []), ("c", [1])])
        [('a', 2), ('a', 0), ('b', None), ('c', 1)]
    """
    order: list[tuple[str, S | None]] = []
    for entity, sections in candidates:
        order += [(entity, section) for section in sections] or [(entity, None)]
    return order
