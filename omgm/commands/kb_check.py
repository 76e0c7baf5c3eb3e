"""Say whether questions and their images can be used, and what a knowledge base covers; exit status 1 if not."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import (
    add_json,
    add_max_bad,
    add_query_map,
    add_reading,
    datasets_listed,
    existing,
    query_images_of,
    question_names,
    reading_of,
    report,
)

if TYPE_CHECKING:
    from evaluation.datasets.coverage import Sections
    from evaluation.datasets.question import Question
    from indexes.store.index import Index
    from retriever.types import Entity

_LISTED = 20
_MOST = 50_000
"""Entities whose main images are all compared, which takes three minutes once; of more, those that are asked about."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--dataset", required=True, metavar="NAME", help=datasets_listed())
    parser.add_argument("--queries", type=Path, required=True, metavar="FILE", help="its question file")
    add_query_map(parser)
    parser.add_argument("--query-images", type=Path, metavar="DIR", help="their images; else not checked")
    against = parser.add_mutually_exclusive_group()
    against.add_argument("--index", type=Path, metavar="INDEX", help="the index with their entities")
    against.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base with their entities")
    add_reading(parser)
    add_max_bad(parser, listed="")
    parser.add_argument("--missing", type=Path, metavar="FILE", help="write the ids of missing images, one per line")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints what can be used.

    Raises:
        SystemExit: With status 1 if questions or images cannot be used.
    """
    from evaluation.datasets import Question, check, read
    from indexes.progress import progress_bar
    from retriever.files import write_whole

    folder = None if args.query_images is None else query_images_of(args)
    items = read(args.dataset, existing(args.queries, "--queries"), question_names(args))
    index = None if args.index is None else _opened(existing(args.index, "--index"))
    rows = items if index is None else list(items)
    findings = check.examine(progress_bar(rows, desc="questions", unit="row"), folder)
    known, example = _known_sections(args, index, findings.entities)
    if args.missing is not None:
        write_whole(args.missing, "".join(f"{image_id}\n" for image_id in findings.missing).encode())
    result = {"dataset": args.dataset, "queries": str(args.queries), **check.report(findings, known, example)}
    text = check.as_text(result)
    if index is not None:
        result |= _images(args.index, index, [row for row in rows if isinstance(row, Question)], folder)
        text = "\n".join([text, *_lines(result)])
    report(args, result, text)
    if not result["usable"]:
        raise SystemExit(1)


def _opened(folder: Path) -> Index:
    from indexes.store.index import Index

    return Index.open(folder)


def _images(folder: Path, index: Index, questions: Sequence[Question], images: Path | None) -> dict[str, Any]:
    """Returns which images are in an index, too, and how many of its main images are copies of others."""
    from evaluation.image_overlap import ImageOverlap, images_of, main_copies

    rows: Sequence[int] = range(len(index))
    if len(index) > _MOST:
        gold = (index.row_of(entity) for question in questions for entity in question.entity_ids)
        rows = sorted({row for row in gold if row is not None})
    copies = main_copies(index, rows)
    main = {"compared": len(rows), "entities": sum(map(len, copies)), "groups": copies[:_LISTED]}
    if images is None:
        return {"main_copies": main}
    places = ImageOverlap.of(questions, images_of(questions, images), index, folder).places
    share = len(places) / len(questions) if questions else 0.0
    return {"main_copies": main, "overlap": {"share": share, **Counter(places.values())}}


def _lines(result: dict[str, Any]) -> Iterator[str]:
    from evaluation.image_overlap import PLACES
    from evaluation.metrics import percent
    from retriever.wording import counted

    copies, overlap = result["main_copies"], result.get("overlap", {"share": 0})
    if overlap["share"]:
        where = ", ".join(f"{overlap[place]:,} among {words}" for place, words in PLACES.items() if place in overlap)
        yield f"known images: {percent(overlap['share'])} percent of the questions ({where})"
    if copies["entities"]:
        shown = "; ".join(", ".join(group[:3]) for group in copies["groups"][:3])
        what = "have a main image that is a copy of another's, so that no photograph can tell them apart"
        yield f"copies: {copies['entities']:,} of {counted(copies['compared'], 'entity')} {what}: {shown}"


def _known_sections(args: argparse.Namespace, index: Index | None, wanted: set[str]) -> tuple[Sections | None, str]:
    """Returns the wanted entities' sections in the index or knowledge base (`None` without either) and one id."""
    if index is not None:
        rows = (index.row_of(entity) for entity in sorted(wanted))
        known = _sections_in((index.entity(row) for row in rows if row is not None), wanted)
        return known, index.entity(0).id if len(index) else ""
    if args.kb is not None:
        from indexes.knowledge.bad_entries import SkippedEntries
        from indexes.knowledge.reading import read_knowledge_base
        from indexes.limits import MAX_BAD
        from indexes.progress import progress_bar

        reading, kb = reading_of(args), existing(args.kb, "--kb")
        skipped = SkippedEntries(reading.get("max_bad", MAX_BAD))
        entities = read_knowledge_base(kb, reading["kb_format"], names=reading["names"], skipped=skipped)
        first = next(entities, None)
        read = entities if first is None else chain([first], entities)
        known = _sections_in(progress_bar(read, desc="knowledge base", unit="entity"), wanted)
        return known, "" if first is None else first.id
    return None, ""


def _sections_in(entities: Iterable[Entity], wanted: set[str]) -> dict[str, frozenset[int]]:
    """Returns the section numbers of the wanted entities, by their ids as questions spell them."""
    from indexes.wanted_ids import WantedIds

    ids = WantedIds(wanted)
    found: list[frozenset[int]] = []
    for entity in entities:
        if ids.add(entity, len(found)):
            found.append(frozenset(section.index for section in entity.sections))
    return {wanted_id: found[row] for wanted_id, row in ids.rows().items()}
