"""Measures other photographs of things in an index, by kind, on public collections.

    python -m tests.corpora.photographs --corpora DIR --work WORK [--only dvd museum]

Check out each repository of `photographs.toml` at its commit as `DIR/OWNER/NAME`; whatever is not there is left out.
The indexes stay in WORK. `photographs.csv` has what a person saw in each photograph: `index` (one picture per thing),
`near-copy` (the same view), `other-angle`, `back-or-detail`, `other-individual` (another specimen or color), or
`foreign` (a thing that was left out of the index).
"""

from __future__ import annotations

import csv
import statistics
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks.frame import arguments, as_markdown
from generators.guard import GuardedGenerator
from omgm import OMGM
from retriever.recognition import is_declined

HERE = Path(__file__).parent
OFFERED = 8
"""The candidates of a declined photograph that the page offers."""


class Photograph(NamedTuple):
    """A row of `photographs.csv`; `entity` is empty if it is foreign, and `title` is that of an index picture."""

    collection: str
    kind: str
    entity: str
    title: str
    path: str


class Verdict(NamedTuple):
    """What was said of a photograph: ranks from 1, or 0 if not among the candidates, and milliseconds of CPU time."""

    kind: str
    rank: int
    accepted: bool
    cpu_ms: float


def build(rows: list[Photograph], corpora: Path, folder: Path) -> OMGM:
    """Builds the index of a collection's pictures, each with its title as the only text."""
    folder.mkdir(parents=True, exist_ok=True)
    kb = folder / "kb.csv"
    with kb.open("w", newline="", encoding="utf-8") as file:
        written = csv.writer(file)
        written.writerow(("id", "title", "image", "text"))
        written.writerows((row.entity, row.title, row.path, row.title) for row in rows)
    return OMGM.build(kb, folder / "index", images=corpora, kb_format="csv", overwrite=True, progress=False)


def ask(omgm: OMGM, row: Photograph, corpora: Path) -> Verdict:
    """Asks what a photograph shows."""
    threshold = omgm.generator.threshold if isinstance(omgm.generator, GuardedGenerator) else 0.0
    started = time.process_time()
    [result] = omgm.retrieve([(corpora / row.path, "What is this?")])
    cpu_ms = (time.process_time() - started) * 1000
    ids = [candidate.entity for candidate in result.candidates]
    rank = ids.index(row.entity) + 1 if row.entity in ids else 0
    return Verdict(row.kind, rank, not is_declined(result.recognized, threshold), cpu_ms)


def summary(half: str, kind: str, verdicts: list[Verdict]) -> dict[str, object]:
    """Summarizes the verdicts of a kind; a foreign photograph that is accepted is wrong."""
    right = sum(verdict.accepted and verdict.rank == 1 for verdict in verdicts)
    accepted = sum(verdict.accepted for verdict in verdicts)
    offered = sum(not verdict.accepted and 0 < verdict.rank <= OFFERED for verdict in verdicts)
    shares = {"recognized": right, "offered": offered, "wrong": accepted - right, "declined": len(verdicts) - accepted}
    first = {f"Recall@{k}": sum(0 < verdict.rank <= k for verdict in verdicts) for k in (1, 20)}
    counts = {**({name: None for name in first} if kind == "foreign" else first), **shares}
    return {
        "half": half,
        "kind": kind,
        "photographs": len(verdicts),
        **{name: count if count is None else f"{count / len(verdicts):.3f}" for name, count in counts.items()},
        "CPU ms, median": round(statistics.median(verdict.cpu_ms for verdict in verdicts), 1),
    }


def main() -> None:
    parser = arguments(__doc__, out="")
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR", help="where they are checked out")
    parser.add_argument("--work", type=Path, required=True, metavar="WORK", help="the folder of the indexes")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these collections")
    args = parser.parse_args()
    with (HERE / "photographs.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in map(Photograph._make, csv.reader(file)) if (args.corpora / row.path).is_file()]
    listed = tomllib.loads((HERE / "photographs.toml").read_text(encoding="utf-8"))
    verdicts = defaultdict[tuple[str, str], list[Verdict]](list)
    for half in ("development", "held-out"):
        for name in listed[half]:
            part = [row for row in rows if row.collection == name and name in (args.only or listed[half])]
            if part:
                omgm = build([row for row in part if row.kind == "index"], args.corpora, args.work / name)
                for row in part:
                    if row.kind != "index":
                        verdicts[half, row.kind].append(ask(omgm, row, args.corpora))
                omgm.close()
    print(as_markdown([summary(*of, verdicts[of]) for of in sorted(verdicts)]) if verdicts else "nothing to measure")


if __name__ == "__main__":
    main()
