"""Compares countries in the demo's knowledge base with all others, from the records of one run.

    python -m benchmarks.zero_shot --run RUN [--json]

The shipped encoder was trained on the drawings and summaries of the demo's countries. A
run of `omgm evaluate` over images of more flags shows how well it does on flags that it has never seen. The country
is read from the image's id, `..._country_<ISO code>_<n>`; queries with other images are only counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.frame import arguments
from evaluation.metrics import percent, recall_at_k
from evaluation.records import RECORDS, QueryRecord, read_records
from pretraining.demo.facts import countries

CODE = re.compile(r"(?:^|_)country_([a-z0-9-]+)_\d+$")
GROUPS = {True: "in the demo's knowledge base", False: "not in it (zero-shot)"}


def zero_shot(records: Iterable[QueryRecord], known: Container[str]) -> dict[str, Any]:
    """Computes a row for each group of countries, and counts the queries without a country."""
    groups: dict[bool, list[QueryRecord]] = {True: [], False: []}
    codes: dict[bool, set[str]] = {True: set(), False: set()}
    others = 0
    for record in records:
        match = CODE.search(record.image_id)
        if match is None:
            others += 1
            continue
        groups[match[1] in known].append(record)
        codes[match[1] in known].add(match[1])
    rows = [{"group": GROUPS[key], "countries": len(codes[key])} | _figures(groups[key]) for key in groups]
    return {"rows": rows, "other_questions": others}


def _figures(records: Sequence[QueryRecord]) -> dict[str, float | int | None]:
    figures: dict[str, float | int | None] = {"questions": len(records)}
    for step in ("step1", "step2"):
        ranks = [record.ranks.get(step) for record in records]
        figures |= {f"{step}_recall@{k}": recall_at_k(ranks, k) if records else None for k in (1, 20)}
    figures["section_recall@1"] = _share([record.section_correct for record in records])
    figures["answer_accuracy"] = _share([record.answer_correct for record in records])
    return figures


def _share(verdicts: Sequence[bool | None]) -> float | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    return sum(known) / len(known) if known else None


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table in Markdown, in percent."""
    shares = [key for key in rows[0] if "recall" in key or "accuracy" in key]
    heads = [key.replace("recall", "R").replace("_", " ") for key in shares]
    lines = ["| | countries | questions | " + " | ".join(heads) + " |", "| --- " * (len(shares) + 3) + "|"]
    for row in rows:
        cells = [percent(row[key]) for key in shares]
        lines.append(f"| {row['group']} | {row['countries']} | {row['questions']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the folder of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    path = args.run / RECORDS
    if not path.is_file():
        parser.error(f"{path} does not exist; run omgm evaluate first")
    result = zero_shot(read_records(path), countries())
    if args.json:
        print(json.dumps(result, indent=2))
        return
    print(as_markdown(result["rows"]))
    if result["other_questions"]:
        print(f"\n{result['other_questions']} questions are not about a country.")


if __name__ == "__main__":
    main()
