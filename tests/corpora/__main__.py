"""Compares how two states of the code read public folders and files: the words and images of each entity.

    python -m tests.corpora snapshot --corpora DIR --out before.jsonl [--only hugo]
    python -m tests.corpora compare before.jsonl after.jsonl [--only hugo] [--examples 3]

`corpora.toml` lists the repositories. Check out each one's `folders` (all of it, if it names none) at `commit` as
`DIR/NAME`; those that are not there are left out. Each of its `paths` is read as `omgm kb inspect` reads it, without
options. The bar: each entity keeps its id, its main image, and all but 0.5 % of its words.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import signal
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from benchmarks.frame import Row, arguments, as_markdown, recorder
from indexes.image_source import ImageSource, find_main
from indexes.knowledge.matching import with_matched_images
from indexes.knowledge.sections import FACTS
from indexes.knowledge.sources import images_beside, open_images
from retriever.types import Entity

LIST = Path(__file__).with_name("corpora.toml")
LOST = 0.005  # largest share of an entity's words that may be lost
MOST = 20_000  # entities of a corpus that are compared
SECONDS = 600  # after which a corpus is given up
CHANGES = ("equal", "new", "differing", "lost")  # of a main image; the last two are below the bar


def read_as_inspected(path: Path) -> tuple[Iterator[Entity], ImageSource | None, Any]:
    """Returns the entities of a knowledge base with their images, the source of these, and the skipped entries."""
    try:
        reading, bad = map(importlib.import_module, ("indexes.knowledge.reading", "indexes.knowledge.bad_entries"))
        format = None
    except ModuleNotFoundError:  # the code until a3fc06cb, which gives a folder one format
        reading = importlib.import_module("indexes.knowledge.formats")
        bad = importlib.import_module("indexes.knowledge.formats.reading")
        format = reading.guess_format(path)
    beside: Any = images_beside  # whether there is a format depends on the state of the code, and so do the types
    opened: Any = open_images
    source = opened(beside(path, format), path, format)
    skipped = bad.SkippedEntries(1)
    return with_matched_images(reading.read_knowledge_base(path, format, skipped=skipped), source), source, skipped


def words_of(entity: Entity) -> Counter[str]:
    """Counts the words of an entity's title, names, headings and texts, and of captions that are not in the text."""
    headings = {section.title for section in entity.sections} - {FACTS}  # once, as long sections are divided
    texts = (entity.title, *entity.names, *headings, *(section.text for section in entity.sections))
    return _count(texts) | _count(image.caption for image in entity.images)


def _count(texts: Iterable[str]) -> Counter[str]:
    return Counter(chain.from_iterable(re.findall(r"\w+", text.casefold()) for text in texts))


def describe(entity: Entity, source: ImageSource | None, root: Path) -> Row:
    """Converts an entity to the row that is compared; the path of its main image is relative to `root`."""
    words = words_of(entity)
    name = None if source is None else find_main(source, entity)
    content = None if source is None or name is None else source.content(name)
    if isinstance(content, Path):
        name = os.path.relpath(content.resolve(), root.resolve())
    named = {image.url for image in entity.images} | ({entity.image} if entity.image else set())
    listed = sorted(words.items())
    return {
        "id": entity.id,
        "title": entity.title,
        "count": words.total(),
        "hash": hashlib.sha256(repr(listed).encode()).hexdigest()[:16],
        "main": name,
        "images": len(named),
        "words": dict(listed),
    }


def snapshot(corpora: Path, listed: Path, out: Path, only: str) -> None:
    """Writes the entities of each corpus, followed by a summary, as JSON lines."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not read in {SECONDS} s")

    signal.signal(signal.SIGALRM, give_up)
    record = recorder(out)
    for corpus in tomllib.loads(listed.read_text(encoding="utf-8"))["corpus"]:
        for inner in corpus["paths"]:
            name, root = f"{corpus['name']}/{inner}".removesuffix("/."), corpora / corpus["name"]
            if not (root / inner).exists() or only not in name:
                continue
            started, mains, message = time.monotonic(), list[bool](), ""
            signal.alarm(SECONDS)
            try:
                entities, source, skipped = read_as_inspected(root / inner)
                for entity in islice(entities, MOST):
                    record({"corpus": name, **(row := describe(entity, source, root))})
                    mains.append(row["main"] is not None)
                message = f"{skipped.count} skipped: {skipped.listed[0]}" if skipped.count else ""
            except Exception as error:  # whatever it is, it is what this state of the code does with the corpus
                message = f"{type(error).__name__}: {error}"
            signal.alarm(0)
            summary = {"entities": len(mains), "with image": sum(mains), "message": message.replace(str(corpora), "")}
            record({"corpus": name, "seconds": round(time.monotonic() - started, 2), **summary})
            print(f"{name}: {summary}", flush=True)


def load(path: Path, only: str) -> dict[str, tuple[Row, dict[str, Row]]]:
    """Reads a snapshot: the summary of each corpus, and its entities by id."""
    corpora, entities = dict[str, tuple[Row, dict[str, Row]]](), list[Row]()
    with path.open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            entities.append(row)
            if "seconds" in row:
                if only in row["corpus"]:  # an interrupted snapshot has entities without a summary
                    whole = {entity["id"]: entity for entity in entities[:-1] if entity["corpus"] == row["corpus"]}
                    corpora[row["corpus"]] = row, whole
                entities.clear()
    return corpora


def compare(before: Path, after: Path, only: str, examples: int) -> int:
    """Prints what differs between two snapshots; returns the number of entities below the bar."""
    table, new = list[Row](), load(after, only)
    for name, (past, entities) in load(before, only).items():
        if name not in new:
            print(f"{name}: not in {after}")
            continue
        present = new[name][0]
        if past["message"] != present["message"]:
            print(f"{name}: {past['message']!r}, now {present['message']!r}")
        counts = differences(name, entities, new[name][1], examples)
        table.append({"corpus": name, **counts, "s before": past["seconds"], "s after": present["seconds"]})
    below, total = (sum(row[column] for row in table) for column in ("below", "before"))
    print(as_markdown(table) if table else "nothing to compare")
    print(f"{below} of {total} entities below the bar")
    return int(below)


def differences(name: str, old: Mapping[str, Row], new: Mapping[str, Row], examples: int) -> Row:
    """Returns the counts of what differs in a corpus and prints the worst examples of each kind."""
    both = [(past, new[id]) for id, past in old.items() if id in new]
    kept = [(Counter[str](past["words"]) & Counter[str](present["words"])).total() for past, present in both]
    missing = [past for id, past in old.items() if id not in new]
    moved = {present["hash"]: id for id, present in new.items() if id not in old}
    for past in missing[:examples]:
        print(f"{name}: no {past['id']!r} ({past['count']} words); the same words are in {moved.get(past['hash'])!r}")
    poor = [(*pair, count) for pair, count in zip(both, kept, strict=True) if count < (1 - LOST) * pair[0]["count"]]
    for past, present, count in sorted(poor, key=lambda row: row[2] - row[0]["count"])[:examples]:
        gone = Counter[str](past["words"]) - Counter[str](present["words"])
        listed = " ".join(f"{word}*{times}" for word, times in gone.most_common(12))
        print(f"{name}: {past['id']!r} keeps {count} of {past['count']} words, not {listed}")
    changed = [pair for pair in both if _change(*pair) in CHANGES[2:]]
    for past, present in changed[:examples]:
        print(f"{name}: {past['id']!r} has the main image {present['main']!r}, not {past['main']!r}")
    mains = Counter(_change(*pair) for pair in both)
    total = sum(past["count"] for past, _ in both)
    below = {past["id"] for past in chain(missing, (row[0] for row in poor), (pair[0] for pair in changed))}
    counts = {"before": len(old), "after": len(new), "missing": len(missing), "new": len(new) - len(both)}
    words = {
        "words kept": f"{sum(kept) / max(1, total):.2%}",
        "words now": sum(present["count"] for _, present in both),
    }
    images = {f"main {change}": mains[change] for change in CHANGES}
    return {**counts, **words, "too few words": len(poor), **images, "below": len(below)}


def _change(before: Row, after: Row) -> str:
    past, present = before["main"], after["main"]
    return CHANGES[0 if past == present else 1 if past is None else 3 if present is None else 2]


def main() -> None:
    parser = arguments(__doc__, out="")
    commands = parser.add_subparsers(dest="command", required=True)
    taken, compared = commands.add_parser("snapshot"), commands.add_parser("compare")
    taken.add_argument("--corpora", type=Path, required=True, metavar="DIR", help="where they are checked out")
    taken.add_argument("--list", type=Path, default=LIST, metavar="FILE", help="another list than corpora.toml")
    taken.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines; appended to")
    compared.add_argument("snapshots", type=Path, nargs=2, metavar="FILE", help="the one before, the one after")
    compared.add_argument("--examples", type=int, default=3, metavar="N", help="of each kind (%(default)s)")
    for command in (taken, compared):
        command.add_argument("--only", default="", metavar="TEXT", help="only corpora whose name contains this")
    args = parser.parse_args()
    if args.command == "snapshot":
        snapshot(args.corpora, args.list, args.out, args.only)
    elif compare(args.snapshots[0], args.snapshots[1], args.only, args.examples):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
