"""Say whether questions and their images can be used, and what a knowledge base covers; exit status 1 if not."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

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
    from evaluation.datasets import check, read
    from indexes.progress import progress_bar
    from retriever.files import write_whole

    folder = None if args.query_images is None else query_images_of(args)
    items = read(args.dataset, existing(args.queries, "--queries"), question_names(args))
    findings = check.examine(progress_bar(items, desc="questions", unit="row"), folder)
    known, example = _known_sections(args, findings.entities)
    if args.missing is not None:
        write_whole(args.missing, "".join(f"{image_id}\n" for image_id in findings.missing).encode())
    result = {"dataset": args.dataset, "queries": str(args.queries), **check.report(findings, known, example)}
    report(args, result, check.as_text(result))
    if not result["usable"]:
        raise SystemExit(1)


def _known_sections(args: argparse.Namespace, wanted: set[str]) -> tuple[Sections | None, str]:
    """Returns the wanted entities' sections in the index or knowledge base (`None` without either) and one id."""
    from evaluation.datasets.coverage import sections_in

    if args.index is not None:
        from indexes.store.index import Index

        index = Index.open(existing(args.index, "--index"))
        rows = (index.row_of(entity) for entity in sorted(wanted))
        known = sections_in((index.entity(row) for row in rows if row is not None), wanted)
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
        known = sections_in(progress_bar(read, desc="knowledge base", unit="entity"), wanted)
        return known, "" if first is None else first.id
    return None, ""
