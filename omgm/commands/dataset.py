"""Check a data set's questions and pictures, or export one's own from the Hugging Face form."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omgm.commands.common import add_json, existing, print_json

if TYPE_CHECKING:
    from evaluation.datasets.coverage import Sections
    from retriever.types import Entity

SHOWN = 5
"""Errors and missing pictures that are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `check` and `export` with their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "Say whether questions and pictures can be used, and what a knowledge base covers; status 1 if not."
    check = actions.add_parser("check", help=about.rstrip("."), description=about)
    check.add_argument("--dataset", required=True, metavar="NAME", help="evqa, infoseek, okvqa, dynvqa, plain")
    check.add_argument("--queries", type=Path, required=True, metavar="FILE", help="its question file")
    check.add_argument("--query-images", type=Path, metavar="DIR", help="the questions' pictures; unchecked without it")
    against = check.add_mutually_exclusive_group()
    against.add_argument("--index", type=Path, metavar="INDEX", help="the index that is to answer them")
    against.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base that is to answer them")
    check.add_argument("--kb-format", metavar="FORMAT", help="how it is written; else guessed")
    check.add_argument("--missing", type=Path, metavar="FILE", help="write the ids of missing pictures, one a line")
    add_json(check)
    about = "Write a dataset that save_to_disk wrote as a question file and a folder of pictures (--dataset plain)."
    export = actions.add_parser("export", help=about.rstrip("."), description=about)
    export.add_argument("--from", type=Path, required=True, dest="source", metavar="DIR", help="the dataset's folder")
    export.add_argument("--split", metavar="NAME", help="which of its splits, where it has several")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the two go")
    for action in (check, export):
        action.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help="say what is going on")


def run(args: argparse.Namespace) -> None:
    """Does what `args.action` says."""
    {"check": _check, "export": _export}[args.action](args)


def _check(args: argparse.Namespace) -> None:
    from tqdm import tqdm

    from evaluation.datasets import read
    from evaluation.datasets.check import examine, report
    from retriever.files import write_whole

    folder = None if args.query_images is None else existing(args.query_images, "--query-images")
    items = read(args.dataset, existing(args.queries, "--queries"))
    found = examine(tqdm(items, desc="questions", unit="row", disable=None), folder)
    known = _known(args, found.entities)
    if args.missing is not None:
        write_whole(args.missing, "".join(f"{image_id}\n" for image_id in found.missing).encode())
    result = {"dataset": args.dataset, "queries": str(args.queries), **report(found, known)}
    if args.json:
        print_json(result)
    else:
        print("\n".join(_lines(result)))
    if not result["usable"]:
        raise SystemExit(1)


def _export(args: argparse.Namespace) -> None:
    from evaluation.datasets.export import PICTURES, QUESTIONS, export

    n = export(existing(args.source, "--from"), args.out, args.split)
    print(f"{n} questions: --dataset plain --queries {args.out / QUESTIONS} --query-images {args.out / PICTURES}")


def _known(args: argparse.Namespace, wanted: set[str]) -> Sections | None:
    """Returns what the index or the knowledge base has of the wanted entities, `None` when neither is named."""
    from evaluation.datasets.coverage import sections_in

    if args.index is not None:
        from indexes.store import Index

        index = Index.open(existing(args.index, "--index"))
        rows = (index.row_of(entity) for entity in sorted(wanted))
        return sections_in((index.entity(row) for row in rows if row is not None), wanted)
    if args.kb is not None:
        return sections_in(_entities(existing(args.kb, "--kb"), args.kb_format), wanted)
    return None


def _entities(path: Path, format: str | None) -> Iterator[Entity]:
    from tqdm import tqdm

    from indexes.formats import read_knowledge_base

    return iter(tqdm(read_knowledge_base(path, format), desc="knowledge base", unit="entity", disable=None))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    n, entities = result["questions"], result["entities"]
    yield f"{result['dataset']}, {result['queries']}: {n:,} questions about {entities:,} entities"
    for reason, n in result["left_out"].items():
        yield f"  left out       {n:,} ({reason})"
    if result["repeated"]:
        yield f"  repeated       {result['repeated']:,} ask of a picture what an earlier question asks of it"
    if result["answers_mean"] is not None:
        several = result["with_several_answers"]
        yield f"  answers        {result['answers_mean']:.2f} a question; {several:,} questions have several"
    for name in ("question_type", "split", "category"):
        if result[f"by_{name}"]:
            yield f"  {name.replace('question_', ''):14} {_pairs(result[f'by_{name}'])}"
    if result["pictures"]:
        yield f"  pictures       {_pairs(result['pictures'])}"
        if len(result["pictures_by_category"]) > 1:
            for category, counts in result["pictures_by_category"].items():
                yield f"    {category or '(none)':12} {_pairs(counts)} (by question)"
    yield from _some("missing pictures", result["first_missing"], result["pictures"].get("missing", 0))
    if result["coverage"]:
        yield ""
        yield from _table(result["coverage"])
    yield from _some("errors", result["first_errors"], result["errors"])
    yield "" if result["usable"] else "\nnot usable as it is"


def _some(title: str, shown: list[str], n: int) -> Iterator[str]:
    if n:
        yield f"\n{title}: {n:,}"
        yield from (f"  {one}" for one in shown[:SHOWN])
        if n > SHOWN:
            yield "  …"


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())


def _table(rows: Mapping[str, Mapping[str, int]]) -> Iterable[str]:
    columns = ("questions", "with_entity", "entity_known", "with_section", "section_known")
    width = max(map(len, rows))
    yield f"{'coverage':{width}}" + "".join(f"  {column.replace('_', ' '):>13}" for column in columns)
    for group, row in rows.items():
        yield f"{group:{width}}" + "".join(f"  {row[column]:>13,}" for column in columns)
