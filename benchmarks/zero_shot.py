"""Countries that the demo's knowledge base has against those it lacks, from the records of one run.

    python benchmarks/zero_shot.py --run RUN [--json]

The shipped encoder was trained with the drawings and summaries of the demo's countries (`demo/countries.csv`). A run of
`omgm evaluate` over pictures of more flags says what it makes of those that it has never seen. The country is read from
the picture's id, `..._country_<ISO code>_<n>`; other pictures are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.facts import countries
from evaluation.metrics import recall_at_k
from evaluation.records import Line, read_lines
from evaluation.run import LINES

CODE = re.compile(r"(?:^|_)country_([a-z0-9-]+)_\d+$")
GROUPS = {True: "in the demo's knowledge base", False: "not in it (zero-shot)"}


def zero_shot(lines: Iterable[Line], known: Container[str]) -> dict[str, Any]:
    """Returns a row for each group of countries, and how many records show none."""
    groups: dict[bool, list[Line]] = {True: [], False: []}
    codes: dict[bool, set[str]] = {True: set(), False: set()}
    others = 0
    for line in lines:
        match = CODE.search(line["image_id"])
        if match is None:
            others += 1
            continue
        groups[match[1] in known].append(line)
        codes[match[1] in known].add(match[1])
    rows = [{"group": GROUPS[key], "countries": len(codes[key])} | _figures(groups[key]) for key in groups]
    return {"rows": rows, "other_questions": others}


def _figures(lines: Sequence[Line]) -> dict[str, float | int | None]:
    figures: dict[str, float | int | None] = {"questions": len(lines)}
    for step in ("step1", "step2"):
        ranks = [line["ranks"].get(step) for line in lines]
        figures |= {f"{step}_recall@{k}": recall_at_k(ranks, k) if lines else None for k in (1, 20)}
    for name, field in (("section_recall@1", "section_correct"), ("answer_accuracy", "answer_correct")):
        judged = [line[field] for line in lines if line[field] is not None]
        figures[name] = sum(judged) / len(judged) if judged else None
    return figures


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the table, shares in percent."""
    shares = [key for key in rows[0] if "recall" in key or "accuracy" in key]
    heads = [key.replace("recall", "R").replace("_", " ") for key in shares]
    lines = ["| | countries | questions | " + " | ".join(heads) + " |", "| --- " * (len(shares) + 3) + "|"]
    for row in rows:
        cells = ["-" if row[key] is None else f"{100 * row[key]:.1f}" for key in shares]
        lines.append(f"| {row['group']} | {row['countries']} | {row['questions']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, metavar="RUN", help="the folder of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    path = args.run / LINES
    if not path.is_file():
        parser.error(f"{path} does not exist; omgm evaluate writes it")
    result = zero_shot(read_lines(path), countries())
    if args.json:
        print(json.dumps(result, indent=2))
        return
    print(as_markdown(result["rows"]))
    if result["other_questions"]:
        print(f"\n{result['other_questions']} questions show no country.")


if __name__ == "__main__":
    main()
