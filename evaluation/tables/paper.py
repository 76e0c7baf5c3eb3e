"""The paper's tables as data: what each shows, where its figures come from in a run, and what was published."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Cells = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row to measure: its name, its run, the step it looks at, and what it is called for a run that is given."""

    name: str
    run: str
    at: str = ""
    given: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of figures under one heading, the published ones or those measured here.

    Attributes:
        on: What they were measured on.
        columns: Their names; one that ends in "[s]" holds seconds, the others percent.
        rows: Name and cells.
    """

    on: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, Cells], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table (or figure) of the paper.

    Attributes:
        id: "2" to "14", "figure3" to "figure5".
        title: What it is about.
        caption: What its figures are.
        columns: By style of question ("any": all others) the columns, each with its place in `metrics.json`.
        rows: What to measure.
        paper: The published figures.
        notes: What to know when comparing.
        styles: The styles of question that it is about; empty: all.
        sweep: "alpha" or "beta" where rows are the values of a sweep.
    """

    id: str
    title: str
    caption: str
    columns: Mapping[str, Mapping[str, str]]
    rows: tuple[Row, ...]
    paper: tuple[Block, ...]
    notes: tuple[str, ...]
    styles: tuple[str, ...]
    sweep: str

    def columns_for(self, style: str) -> Mapping[str, str]:
        """Returns the columns for questions of a style."""
        return self.columns.get(style, self.columns["any"])


@cache
def tables() -> dict[str, Table]:
    """Returns all tables by id, in the paper's order."""
    text = files("evaluation.tables").joinpath("paper.toml").read_text(encoding="utf-8")
    return {entry["id"]: _table(entry) for entry in tomllib.loads(text)["table"]}


def cell(metrics: Mapping[str, Any], column: str, place: str) -> float | None:
    """Returns the figure at a dotted place of `metrics.json` in a column's unit, `None` where there is none.

    Example:
        >>> cell({"step1": {"recall@1": 0.5}}, "R@1", "step1.recall@1")
        50.0
        >>> cell({"latency_ms": {"retrieve_p50": 20.0}}, "Time [s]", "latency_ms.retrieve_p50")
        0.02
    """
    found: Any = metrics
    for key in place.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, int | float):
        return None
    return found / 1000 if is_time(column) else 100 * found


def is_time(column: str) -> bool:
    """Returns whether a column holds seconds."""
    return column.endswith("[s]")


def _table(entry: Mapping[str, Any]) -> Table:
    return Table(
        id=entry["id"],
        title=entry["title"],
        caption=entry["caption"],
        columns=entry["columns"],
        rows=tuple(Row(**row) for row in entry.get("rows", ())),
        paper=tuple(_block(block) for block in entry.get("paper", ())),
        notes=tuple(entry.get("notes", ())),
        styles=tuple(entry.get("styles", ())),
        sweep=entry.get("sweep", ""),
    )


def _block(entry: Mapping[str, Any]) -> Block:
    rows: Sequence[Sequence[Any]] = entry["rows"]
    cells = tuple((row[0], tuple(None if value == "-" else float(value) for value in row[1:])) for row in rows)
    return Block(entry["on"], tuple(entry["columns"]), cells)
