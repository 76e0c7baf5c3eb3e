"""One table: its rows from runs, beside the paper's; what cannot be measured here says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.compare import load_run
from evaluation.records import read_lines
from evaluation.run import LINES
from evaluation.sweep import sweep
from evaluation.tables.paper import Block, Row, Table, cell
from evaluation.tables.runs import Runs

GRID = [round(i / 10, 1) for i in range(11)]
_NO_QUESTIONS = "no questions are given (--queries, --query-images and --kb or --index)"


@dataclass(frozen=True, slots=True)
class Made:
    """A table with what was measured for it.

    Attributes:
        table: Which one.
        blocks: What was measured, empty where nothing was.
        notes: What to know: why nothing was measured, what a sweep chose.
        runs: The folder of every run that a figure is from, by the row's name.
    """

    table: Table
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    runs: Mapping[str, str]


def make(table: Table, runs: Runs | None, given: Mapping[str, Path], tuned_on: Path | None = None) -> Made:
    """Returns a table, its rows measured by `runs` and read from `given`.

    Args:
        table: Which one.
        runs: Makes runs over the questions; `None` without any.
        given: Finished runs by their labels, for rows of their own.
        tuned_on: The run that alpha and beta were chosen on, for the sweeps.

    Raises:
        ValueError: A run that is given is not finished, or the questions are those of `tuned_on`.
    """
    blocks: list[Block] = []
    notes: list[str] = []
    folders: dict[str, str] = {}
    if runs is None:
        notes.append(f"Not measured: {_NO_QUESTIONS}.")
    elif why := _unfit(table, runs.asked.dataset):
        notes.append(f"Not measured: {why}.")
    elif table.sweep:
        block, note = _swept(table, runs, tuned_on)
        blocks.append(block)
        notes.append(note)
        folders |= {"scores": str(runs.folder("full"))}
    else:
        columns = table.columns_for(_style(runs.asked.dataset))
        rows = {row.name.format(generator=runs.parts.generator.name): row for row in table.rows}
        figures = {name: runs.metrics(row.run) for name, row in rows.items()}
        blocks.append(_block(_measured_on(runs), columns, [(n, rows[n], m) for n, m in figures.items()]))
        folders |= {name: str(runs.folder(row.run)) for name, row in rows.items()}
        notes += sorted(
            {m["answer"]["note"] for m in figures.values() if "note" in m["answer"]} if _answers(table) else ()
        )
    for label, folder in given.items():
        found, why = _given(table, label, folder)
        if found is not None:
            blocks.append(found)
            folders[label] = str(folder)
        elif why:
            notes.append(why)
    return Made(table, tuple(blocks), (*notes, *table.notes), folders)


def _given(table: Table, label: str, folder: Path) -> tuple[Block | None, str]:
    metrics = load_run(folder).metrics
    rows = [row for row in table.rows if row.given]
    if not rows:
        return None, ""
    if why := _unfit(table, metrics["dataset"]):
        return None, f"{label} is left out: {why}."
    on = f"{metrics['dataset']}, {metrics['n_queries']:,} questions, profile {metrics['profile']}, run {label}"
    named = [(row.given.format(label=label), row, metrics) for row in rows]
    return _block(on, table.columns_for(_style(metrics["dataset"])), named), ""


def _swept(table: Table, runs: Runs, tuned_on: Path | None) -> tuple[Block, str]:
    """Returns the curve, on the tuning split where there is one, and then what its choice reaches on the questions."""
    alphas, betas = (GRID, [runs.parts.beta]) if table.sweep == "alpha" else ([runs.parts.alpha], GRID)
    lines = read_lines(runs.folder("full") / LINES)
    name, (column, measure) = table.sweep, next(iter(table.columns["any"].items()))
    if tuned_on is None:
        found = sweep(lines, alphas, betas, tune_split="the questions")
        note = (
            f"The curve is over the questions given, so {name} = {found[name]:g}, its best point, is a choice and no "
            "result; with --tuned-on RUN the choice is made on another split and reported on these."
        )
        on = _measured_on(runs)
    else:
        found = sweep(
            read_lines(tuned_on / LINES),
            alphas,
            betas,
            tune_split=str(tuned_on),
            report=lines,
            report_split="the questions",
        )
        on = f"{tuned_on} (tuning split), profile {runs.parts.profile}"
        value = found["reported"][measure]
        shown = "-" if value is None else f"{100 * value:.1f}"
        note = f"Chosen there: {name} = {found[name]:g}. Reported on {_measured_on(runs)}: {column} {shown}."
    rows = tuple(
        (f"{row[name]:.1f}", (None if row[measure] is None else 100 * row[measure],)) for row in found[f"by_{name}"]
    )
    return Block(on, (column,), rows), note


def _block(on: str, columns: Mapping[str, str], rows: Iterable[tuple[str, Row, Mapping[str, Any]]]) -> Block:
    cells = [
        (name, tuple(cell(metrics, column, place.format(at=row.at)) for column, place in columns.items()))
        for name, row, metrics in rows
    ]
    return Block(on, tuple(columns), tuple(cells))


def _measured_on(runs: Runs) -> str:
    return (
        f"{runs.asked.dataset}, {len(runs.asked.questions):,} questions, {len(runs.main):,} entities, "
        f"profile {runs.parts.profile}"
    )


def _unfit(table: Table, dataset: str) -> str:
    if not table.styles or _style(dataset) in table.styles:
        return ""
    return f"this table is about questions in the form of {' or '.join(table.styles)}, these are {dataset}"


def _style(dataset: str) -> str:
    return dataset.removesuffix("-all")


def _answers(table: Table) -> bool:
    return any(place.startswith("answer.") for columns in table.columns.values() for place in columns.values())
