"""Selects part of a data set: some entities with their questions, or a training and a validation split by image.

    python -m benchmarks.subset --kb kb_wiki.json --queries dev.csv --contains images/flag/ --out DIR
    python -m benchmarks.subset --queries dev.csv --split 0.67 --seed 0 --by image --out DIR

The first command writes `kb_wiki.json` (or `.jsonl`) and `queries.csv`: the entities whose main image or id contains
the text, and the questions about them. The second writes `train.csv` and `validation.csv`. The two can be combined. For
an InfoSeek file the outputs are `queries.jsonl`, or `train.jsonl` and `validation.jsonl`, with their `_withkb` and
`_qtype` files.

Which side an image falls on depends only on its id and the seed, so the E-VQA and InfoSeek files of a data set are
split alike, with or without a filter. All columns are kept.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.frame import arguments
from evaluation.datasets import load
from indexes.knowledge.knowledge_base import guess_format
from indexes.knowledge.reading import read_knowledge_base
from retriever.files import write_whole

Row = dict[str, Any]
KEYS = ("image", "entity")


def write_kb(kb: Path, contains: str, out: Path) -> set[str]:
    """Writes the entities whose main image or id contains a text, unchanged, to `out/kb_wiki`; returns their ids.

    Raises:
        ValueError: There are none.
    """
    kept = {
        entity.id for entity in read_knowledge_base(kb) if contains in (entity.image or "") or contains in entity.id
    }
    if not kept:
        raise ValueError(f"{kb}: no entity's main image or id contains {contains!r}")
    text = kb.read_text(encoding="utf-8-sig")
    if guess_format(kb) == "evqa":
        articles = {key: entry for key, entry in json.loads(text).items() if key in kept}
        write_whole(out / "kb_wiki.json", json.dumps(articles, ensure_ascii=False, indent=1).encode())
    else:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        write_whole(out / "kb_wiki.jsonl", _as_lines([row for row in rows if row["id"] in kept]))
    return kept


def side_of(key: str, share: float, seed: int) -> str:
    """Returns `train` for about `share` of all keys, `validation` for the others."""
    digest = hashlib.sha256(f"{seed} {key}".encode()).digest()
    return "train" if int.from_bytes(digest[:8], "big") < share * 2**64 else "validation"


def write_questions(queries: Path, out: Path, part_of: Callable[[str, tuple[str, ...]], str | None]) -> dict[str, int]:
    """Writes questions by part and returns the counts; `part_of(image id, entity ids)` names the part, `None` drops."""
    write = _write_infoseek if queries.suffix == ".jsonl" else _write_evqa
    return write(queries, out, part_of)


def _write_evqa(queries: Path, out: Path, part_of: Callable[[str, tuple[str, ...]], str | None]) -> dict[str, int]:
    load("evqa", queries)  # checks every row
    with queries.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        parts: dict[str, list[Row]] = {}
        for row in reader:
            part = part_of(_ids(row["dataset_image_ids"])[0], _ids(row["wikipedia_url"]))
            if part is not None:
                parts.setdefault(part, []).append(row)
    for part, rows in parts.items():
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, reader.fieldnames or [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(out / f"{part}.csv", text.getvalue().encode())
    return {part: len(rows) for part, rows in parts.items()}


def _write_infoseek(queries: Path, out: Path, part_of: Callable[[str, tuple[str, ...]], str | None]) -> dict[str, int]:
    part_by_id = {q.id: part_of(q.image_id, q.entity_ids) for q in load("infoseek", queries)}
    counts: dict[str, int] = {}
    for suffix in ("_withkb", "_qtype", ""):
        path = queries.with_name(f"{queries.stem}{suffix}.jsonl")
        if not path.is_file():
            continue
        parts: dict[str, list[Row]] = {}
        for line in path.read_text(encoding="utf-8-sig").split("\n"):
            row = json.loads(line) if line.strip() else {}
            part = part_by_id.get(str(row.get("data_id")))
            if part is not None:
                parts.setdefault(part, []).append(row)
        for part, rows in parts.items():
            write_whole(out / f"{part}{suffix}.jsonl", _as_lines(rows))
        counts = {part: len(rows) for part, rows in parts.items()}
    return counts


def _as_lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _ids(field: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in field.split("|") if part.strip())


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--kb", type=Path, metavar="FILE", help="the knowledge base, for --contains")
    parser.add_argument("--queries", type=Path, required=True, metavar="FILE", help="questions, E-VQA or InfoSeek")
    parser.add_argument("--contains", metavar="TEXT", help="only entities whose main image or id contains it")
    parser.add_argument("--split", type=float, metavar="SHARE", help="share of the images for training")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--by", choices=KEYS, default="image", help="what is never on both sides (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    args = parser.parse_args(argv)
    if (args.kb is None) != (args.contains is None):
        parser.error("--kb and --contains must be used together")
    if args.contains is None and args.split is None:
        parser.error("nothing to do; give --contains, --split or both")
    if args.split is not None and not 0 < args.split < 1:
        parser.error(f"--split must be between 0 and 1, got {args.split}")
    args.out.mkdir(parents=True, exist_ok=True)
    kept = None if args.kb is None else write_kb(args.kb, args.contains, args.out)

    def part_of(image_id: str, entity_ids: tuple[str, ...]) -> str | None:
        if kept is not None and kept.isdisjoint(entity_ids):
            return None
        if args.split is None:
            return "queries"
        return side_of(image_id if args.by == "image" else entity_ids[0], args.split, args.seed)

    counts = write_questions(args.queries, args.out, part_of)
    if kept is not None:
        print(f"{args.out}: {len(kept)} entities")
    print(f"{args.out}: " + ", ".join(f"{count} questions in {part}" for part, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
