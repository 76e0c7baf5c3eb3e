"""Check a data set's questions and images, or export your own from a Hugging Face dataset."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from omgm.commands.common import (
    add_action,
    add_json,
    add_max_bad,
    add_query_map,
    add_reading,
    existing,
    print_json,
    query_images_of,
    question_names,
    reading_of,
)
from retriever.wording import counted

if TYPE_CHECKING:
    from evaluation.datasets.coverage import Sections


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `check` and `export` with their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "Say whether questions and images can be used, and what a knowledge base covers; exit status 1 if not."
    check = add_action(actions, "check", about)
    check.add_argument("--dataset", required=True, metavar="NAME", help="evqa, infoseek, okvqa, dynvqa or plain")
    check.add_argument("--queries", type=Path, required=True, metavar="FILE", help="its question file")
    add_query_map(check)
    check.add_argument("--query-images", type=Path, metavar="DIR", help="the images of the questions; else not checked")
    against = check.add_mutually_exclusive_group()
    against.add_argument("--index", type=Path, metavar="INDEX", help="the index with their entities")
    against.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base with their entities")
    add_reading(check)
    add_max_bad(check, listed="")
    check.add_argument("--missing", type=Path, metavar="FILE", help="write the ids of missing images, one per line")
    add_json(check)
    about = "Write a dataset from save_to_disk as a question file and images for other commands (--dataset plain)."
    export = add_action(actions, "export", about)
    export.add_argument("--from", type=Path, required=True, dest="source", metavar="DIR", help="the dataset's folder")
    export.add_argument("--split", metavar="NAME", help="one of its splits, if it has several")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder")


def run(args: argparse.Namespace) -> None:
    """Runs `args.action`."""
    {"check": _check, "export": _export}[args.action](args)


def _check(args: argparse.Namespace) -> None:
    from evaluation.datasets import read
    from evaluation.datasets.check import as_text, examine, report
    from indexes.progress import progress_bar
    from retriever.files import write_whole

    folder = None if args.query_images is None else query_images_of(args)
    items = read(args.dataset, existing(args.queries, "--queries"), question_names(args))
    findings = examine(progress_bar(items, desc="questions", unit="row"), folder)
    known, example = _known_sections(args, findings.entities)
    if args.missing is not None:
        write_whole(args.missing, "".join(f"{image_id}\n" for image_id in findings.missing).encode())
    result = {"dataset": args.dataset, "queries": str(args.queries), **report(findings, known, example)}
    if args.json:
        print_json(result)
    else:
        print(as_text(result))
    if not result["usable"]:
        raise SystemExit(1)


def _export(args: argparse.Namespace) -> None:
    from evaluation.datasets.export import IMAGES, QUESTIONS, export

    n = export(existing(args.source, "--from"), args.out, args.split)
    questions = counted(n, "question")
    files = f"--queries {args.out / QUESTIONS} --query-images {args.out / IMAGES}"
    print(f"{questions}; for other commands: --dataset plain {files}")


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
        from indexes.knowledge.formats import read_knowledge_base
        from indexes.knowledge.formats.skipped import MAX_BAD, SkippedEntries
        from indexes.progress import progress_bar

        reading, kb = reading_of(args), existing(args.kb, "--kb")
        skipped = SkippedEntries(reading.get("max_bad", MAX_BAD))
        entities = read_knowledge_base(kb, reading["kb_format"], names=reading["names"], skipped=skipped)
        first = next(entities, None)
        read = entities if first is None else chain([first], entities)
        known = sections_in(progress_bar(read, desc="knowledge base", unit="entity"), wanted)
        return known, "" if first is None else first.id
    return None, ""
