"""Makes one table: measured rows beside the paper's, what differs in their settings, or why nothing can be measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.compare import load_run
from evaluation.metrics import percent
from evaluation.records import RECORDS, read_records
from evaluation.summary import counts_line
from evaluation.sweep import overlap_text, sweep
from evaluation.tables.paper import FigureBlock, PaperTable, TableRow, cell
from evaluation.tables.runs import TableRuns, contents_of
from retriever.wording import counted

GRID = [round(i / 10, 1) for i in range(11)]
_NO_QUESTIONS = "no questions were given (--queries, --query-images and --kb or --index)"


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """A table with its measured figures.

    Attributes:
        source: The paper's table.
        blocks: The measured figures; empty if nothing was measured.
        notes: Why nothing was measured, what a sweep chose, caveats for comparing.
        runs: Folder of the run behind each row.
    """

    source: PaperTable
    blocks: tuple[FigureBlock, ...]
    notes: tuple[str, ...]
    runs: Mapping[str, str]


def make(
    table: PaperTable, runs: TableRuns | None, given: Mapping[str, Path], tuned_on: Path | None = None
) -> MeasuredTable:
    """Measures the rows of a table with `runs` and reads further rows from `given`.

    Args:
        table: The table.
        runs: Makes runs over the questions; `None` if there are no questions.
        given: Finished runs by label, each for a row of its own.
        tuned_on: The run that alpha and beta were chosen on, for the sweeps.

    Raises:
        ValueError: A given run is not finished, or some of the questions are also in `tuned_on`.
    """
    blocks: list[FigureBlock] = []
    notes: list[str] = []
    folders: dict[str, str] = {}
    if runs is None:
        notes.append(f"Not measured: {_NO_QUESTIONS}.")
    elif reason := _mismatch(table, runs.questions.dataset) or _lacking(table, runs):
        notes.append(f"Not measured: {reason}.")
    elif table.sweep:
        block, note = _swept(table, runs, tuned_on)
        blocks.append(block)
        notes.append(note)
        notes += [said] if (said := _deviations(runs)) else []
        folders |= {"scores": str(runs.folder("full"))}
    else:
        columns = table.columns_for(_style(runs.questions.dataset))
        rows = {row.name.format(generator=runs.components.generator.name): row for row in table.rows}
        metrics = {name: runs.metrics(row.run) for name, row in rows.items()}
        blocks.append(_block(_measured_on(runs), columns, [(n, rows[n], m) for n, m in metrics.items()]))
        folders |= {name: str(runs.folder(row.run)) for name, row in rows.items()}
        notes += [f"{name}: {line}." for name, m in metrics.items() if (line := counts_line(m))]
        notes += [note] if (note := _deviations(runs)) else []
        if _shows_answers(table):
            notes += sorted({sentence for m in metrics.values() for sentence in m.get("deviations", {}).values()})
    for label, folder in given.items():
        given_block, reason = _given(table, label, folder)
        if given_block is not None:
            blocks.append(given_block)
            folders[label] = str(folder)
        if reason:
            notes.append(reason)
    return MeasuredTable(table, tuple(blocks), (*notes, *table.notes), folders)


def _deviations(runs: TableRuns) -> str:
    """Returns the deviations of a profile from the paper; those of single rows are in their names."""
    search = runs.main.manifest.search
    index = {"search": None if search is None else {"kind": search.kind}}
    return deviation_note(runs.components.profile, {"settings": runs.components.settings, "index": index})


def _given(table: PaperTable, label: str, folder: Path) -> tuple[FigureBlock | None, str]:
    metrics = load_run(folder).metrics
    rows = [row for row in table.rows if row.given]
    if not rows:
        return None, ""
    if reason := _mismatch(table, metrics["dataset"]):
        return None, f"{label} is left out: {reason}."
    on = f"{metrics['dataset']}, {counted(metrics['n_queries'], 'question')}, profile {metrics['profile']}, run {label}"
    named = [(row.given.format(label=label), row, metrics) for row in rows]
    notes = [f"{label}: {line}."] if (line := counts_line(metrics)) else []
    notes += [f"{label}: {sentence}" for sentence in metrics.get("deviations", {}).values()]
    notes += [note] if (note := deviation_note(label, metrics)) else []
    return _block(on, table.columns_for(_style(metrics["dataset"])), named), " ".join(notes)


def _swept(table: PaperTable, runs: TableRuns, tuned_on: Path | None) -> tuple[FigureBlock, str]:
    """Returns the curve and a note; with `tuned_on`, the curve is that run's and the note reports its choice."""
    alpha, beta = runs.components.alpha, runs.components.beta
    alphas, betas = (GRID, [beta]) if table.sweep == "alpha" else ([alpha], GRID)
    records = read_records(runs.folder("full") / RECORDS)
    name, (column, measure) = table.sweep, next(iter(table.columns["any"].items()))
    if tuned_on is None:
        result = sweep(records, alphas, betas, tune_split="the questions")
        note = (
            f"The curve is over the given questions, so {_chosen(result, name)} is a choice, not a result; with "
            "--tuned-on RUN, the choice is made on another split and evaluated on these questions."
        )
        on = _measured_on(runs)
    else:
        result = sweep(
            read_records(tuned_on / RECORDS),
            alphas,
            betas,
            tune_split=str(tuned_on),
            report=records,
            report_split="the questions",
            contents=contents_of(tuned_on, runs.questions),
        )
        on = f"{tuned_on} (tuning split), profile {runs.components.profile}"
        reported = percent(result["reported"].get(measure))
        note = f"Chosen there: {_chosen(result, name)}. Reported on {_measured_on(runs)}: {column} {reported}."
        note += f" {overlap}." if (overlap := overlap_text(result["reported"])) else ""
    rows = tuple(
        (f"{row[name]:.1f}", (None if row[measure] is None else 100 * row[measure],)) for row in result[f"by_{name}"]
    )
    return FigureBlock(on, (column,), rows), note


def _chosen(result: Mapping[str, Any], name: str) -> str:
    return f"no {name}" if result[name] is None else f"{name} = {result[name]:g}"


def _block(on: str, columns: Mapping[str, str], rows: Iterable[tuple[str, TableRow, Mapping[str, Any]]]) -> FigureBlock:
    cells = [
        (name, tuple(cell(metrics, column, place.format(at=row.at)) for column, place in columns.items()))
        for name, row, metrics in rows
    ]
    return FigureBlock(on, tuple(columns), tuple(cells))


def _measured_on(runs: TableRuns) -> str:
    questions = runs.questions
    return (
        f"{questions.dataset}, {counted(len(questions.questions), 'question')}, "
        f"{counted(len(runs.main), 'entity')}, "
        f"profile {runs.components.profile}"
    )


def _mismatch(table: PaperTable, dataset: str) -> str:
    if not table.styles or _style(dataset) in table.styles:
        return ""
    return f"this table needs questions of {' or '.join(table.styles)}, these are of {dataset}"


def _lacking(table: PaperTable, runs: TableRuns) -> str:
    return next(filter(None, (runs.lacking(row.run) for row in table.rows)), "")


def _style(dataset: str) -> str:
    return dataset.removesuffix("-all")


def _shows_answers(table: PaperTable) -> bool:
    return any(place.startswith("answer.") for columns in table.columns.values() for place in columns.values())


PUBLISHED: Mapping[str, tuple[object, ...]] = {
    "encoder.model": ("BAAI/EVA-CLIP-8B",),
    "search.k": (20,),
    "search.candidates": ("summary",),
    "search.trim_borders": (False,),
    "fusion.tokens": ("float32", "float16"),
    "fusion.score_mode": ("compat",),
    "fusion.alpha": (0.9,),
    "sections.kind": ("cross_encoder", "flag"),
    "sections.model": ("BAAI/bge-reranker-v2-m3",),
    "sections.max_tokens": (6000,),
    "sections.beta": (0.2,),
    "summarizer.kind": ("openai",),
    "summarizer.model": ("meta-llama/Meta-Llama-3-8B-Instruct",),
    "generator.kind": ("openai",),
}
"""Settings of the paper and its code, by their names in a profile; any of several counts."""
_MODELS = ("encoder.model", "sections.model")


def setting_deviations(metrics: Mapping[str, Any]) -> list[str]:
    """Returns every point in which the settings of a run are not the paper's, such as "search.kind ivf-pq (flat)".

    Args:
        metrics: The `settings` and the `index` of a `metrics.json`.
    """
    settings = metrics.get("settings", {})
    said = []
    for key, published in PUBLISHED.items():
        section, _, name = key.partition(".")
        value = settings.get(section, {}).get(name)
        plain = str(value).partition("@")[0].rpartition("/")[2] if key in _MODELS else value
        accepted = [str(one).rpartition("/")[2] if key in _MODELS else one for one in published]
        if value is not None and plain not in accepted:
            said.append(f"{key} {_shown(plain)} ({_shown(accepted[0])})")
    search = (metrics.get("index", {}).get("search") or {}).get("kind") or settings.get("search", {}).get("kind")
    if search not in (None, "flat", "auto"):
        said.append(f"search.kind {search} (flat)")
    dtype = settings.get("sections", {}).get("dtype", "auto")
    dtype = settings.get("dtype") if dtype == "auto" else dtype
    if settings.get("sections", {}).get("kind") in PUBLISHED["sections.kind"] and dtype != "float32":
        said.append(f"sections.dtype {dtype} (float32)")
    return said


def deviation_note(name: str, metrics: Mapping[str, Any]) -> str:
    """Returns the deviations of a run as a sentence with the paper's values in brackets, "" if there are none."""
    said = setting_deviations(metrics)
    return f"{name}: not as in the paper (whose values are in brackets): {'; '.join(said)}." if said else ""


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
