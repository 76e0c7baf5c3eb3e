"""The paper's tables as data: rows, where their figures are in a run's metrics, and the published figures."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Cells = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row to measure: its name, its run, the step it reports, and its name in rows of given runs."""

    name: str
    run: str
    at: str = ""
    given: str = ""


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """Rows of figures under one heading, published or measured here.

    Attributes:
        on: What they were measured on.
        columns: Names of the columns; one that ends in "[s]" holds seconds, the others percent.
        rows: Name and cells of each row.
    """

    on: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, Cells], ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table (or figure) of the paper.

    Attributes:
        id: "2" to "14", "figure3" to "figure5".
        title: Its title.
        caption: What its figures are.
        columns: For each style of question ("any" for all others), the columns with their places in `metrics.json`.
        rows: The rows to measure.
        paper: The published figures.
        notes: Caveats for comparing.
        styles: The styles of question that it applies to; all if empty.
        sweep: "alpha" or "beta" if its rows are the values of a sweep.
    """

    id: str
    title: str
    caption: str
    columns: Mapping[str, Mapping[str, str]]
    rows: tuple[TableRow, ...]
    paper: tuple[FigureBlock, ...]
    notes: tuple[str, ...]
    styles: tuple[str, ...]
    sweep: str

    def columns_for(self, style: str) -> Mapping[str, str]:
        """Returns the columns for questions of a style, with their places in `metrics.json`."""
        return self.columns.get(style, self.columns["any"])


@cache
def tables() -> dict[str, PaperTable]:
    """Returns all tables by id, in the paper's order."""
    text = files("evaluation.tables").joinpath("paper.toml").read_text(encoding="utf-8")
    return {entry["id"]: _table(entry) for entry in tomllib.loads(text)["table"]}


def cell(metrics: Mapping[str, Any], column: str, place: str) -> float | None:
    """Returns the figure at a dotted place of `metrics.json` in the column's unit, `None` if there is none.

    Example:
        >>> cell({"step1": {"recall@1": 0.5}}, "R@1", "step1.recall@1")
        50.0
        >>> cell({"latency_ms": {"retrieve_p50": 20.0}}, "Time [s]", "latency_ms.retrieve_p50")
        0.02
    """
    value: Any = metrics
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(value, int | float):
        return None
    return value / 1000 if is_time(column) else 100 * value


def is_time(column: str) -> bool:
    """Returns whether a column holds seconds."""
    return column.endswith("[s]")


def _table(entry: Mapping[str, Any]) -> PaperTable:
    return PaperTable(
        id=entry["id"],
        title=entry["title"],
        caption=entry["caption"],
        columns=entry["columns"],
        rows=tuple(TableRow(**row) for row in entry.get("rows", ())),
        paper=tuple(_block(block) for block in entry.get("paper", ())),
        notes=tuple(entry.get("notes", ())),
        styles=tuple(entry.get("styles", ())),
        sweep=entry.get("sweep", ""),
    )


def _block(entry: Mapping[str, Any]) -> FigureBlock:
    rows: Sequence[Sequence[Any]] = entry["rows"]
    cells = tuple((row[0], tuple(None if value == "-" else float(value) for value in row[1:])) for row in rows)
    return FigureBlock(entry["on"], tuple(entry["columns"]), cells)
