"""Runs side by side (`omgm compare`): every metric with its interval, every run against the first with a p-value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.metrics import CUTOFFS, Outcome, is_unseen_question, metric_names
from evaluation.records import outcome_of, read_lines
from evaluation.significance import LEVEL, RESAMPLES, difference, figure

Key = tuple[str, str, str]
Measures = dict[str, dict[Key, float]]
HARMONIC = "infoseek, harmonic mean of the splits"
_LATENCIES = ("retrieve_p50", "answer_p50")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        folder: Where it lies.
        metrics: Its `metrics.json`.
        outcomes: By id, picture and words of the question.
    """

    folder: Path
    metrics: Mapping[str, Any]
    outcomes: Mapping[Key, Outcome]


def compare(folders: Sequence[Path], *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Returns the comparison of runs over the questions that all of them asked, ready for JSON.

    A question is the same where its id, its picture and its words are. Failed and unanswered ones count as wrong. A
    metric that not all runs have is listed under `not_compared`. P-values are not corrected for how many there are.

    Args:
        folders: Where `omgm evaluate` wrote, two or more; the first is what the others are compared with.
        resamples: Draws of the bootstrap and of the randomization test.
        seed: Of both.

    Raises:
        ValueError: Fewer than two runs, one that is not finished, runs of different data sets, or no common question.
    """
    if len(folders) < 2:
        raise ValueError("a comparison needs two runs or more")
    runs = [load_run(folder) for folder in folders]
    _same_dataset(runs)
    common = [key for key in runs[0].outcomes if all(key in run.outcomes for run in runs)]
    if not common:
        raise ValueError("the runs have no question in common (same id, picture and words); compare runs of one file")
    tables = [measures(run, common) for run in runs]
    names = list(dict.fromkeys(name for table in tables for name in table))
    shared = [name for name in names if all(name in table for table in tables)]
    labels = _labels(folders)
    return {
        "dataset": runs[0].metrics["dataset"],
        "n_common": len(common),
        "level": LEVEL,
        "resamples": resamples,
        "seed": seed,
        "runs": [_about(run, label, common) for run, label in zip(runs, labels, strict=True)],
        "metrics": [_row(name, [table[name] for table in tables], runs[0], labels, resamples, seed) for name in shared],
        "not_compared": [
            {"name": name, "only_in": [label for label, table in zip(labels, tables, strict=True) if name in table]}
            for name in names
            if name not in shared
        ],
    }


def load_run(folder: Path) -> Run:
    """Returns a run from its `metrics.json` and `queries.jsonl`.

    Raises:
        ValueError: One of them is missing or not what `omgm evaluate` writes.
    """
    paths = folder / "metrics.json", folder / "queries.jsonl"
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{folder}: no {path.name}; it is not a finished run of omgm evaluate")
    try:
        metrics = json.loads(paths[0].read_text(encoding="utf-8"))
        outcomes = {(line["id"], line["image_id"], line["question"]): outcome_of(line) for line in read_lines(paths[1])}
        dataset = metrics["dataset"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: not a run of omgm evaluate ({type(error).__name__}: {error})") from error
    if not outcomes or not dataset:
        raise ValueError(f"{folder}: a run without questions or without the name of its data set")
    return Run(folder, metrics, outcomes)


def measures(run: Run, keys: Sequence[Key]) -> Measures:
    """Returns by metric the score of each question that has one, 0 to 1.

    Args:
        run: The run.
        keys: Its questions to look at.
    """
    outcomes = {key: run.outcomes[key] for key in keys}
    members = list(outcomes.values())
    table: Measures = {}
    known = {key: outcome for key, outcome in outcomes.items() if outcome.entity_known}
    for step in sorted({step for outcome in known.values() for step in outcome.ranks}):
        for k in CUTOFFS:
            hits = {key: _within(outcome.ranks.get(step), k) for key, outcome in known.items()}
            table[f"{step} recall@{k}"] = hits
    labelled = {key: outcome for key, outcome in outcomes.items() if outcome.section_correct is not None}
    if labelled:
        table["section recall@1"] = {key: float(bool(outcome.section_correct)) for key, outcome in labelled.items()}
    for name, asked in (("section", labelled), ("pseudo", outcomes)):
        if any(name in outcome.section_ranks for outcome in asked.values()):
            for k in CUTOFFS:
                hits = {key: _within(outcome.section_ranks.get(name), k) for key, outcome in asked.items()}
                table.setdefault(f"{name} recall@{k}", hits)
    for name in metric_names(members):
        table[name] = {key: outcome.answer_scores.get(name, 0.0) for key, outcome in outcomes.items()}
    if "infoseek" in table and len({is_unseen_question(outcome) for outcome in members}) == 2:
        table[HARMONIC] = table["infoseek"]
    return table


def as_markdown(comparison: Mapping[str, Any]) -> str:
    """Returns a comparison as a table, shares in percent and differences in points."""
    runs = comparison["runs"]
    percent = f"{100 * comparison['level']:g} %"
    lines = [
        f"# {comparison['dataset']}: {len(runs)} runs over {comparison['n_common']:,} common questions",
        "",
        "| run | profile | commit | questions | not common | failed | unanswered | retrieval p50 | answer p50 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        times = [_milliseconds(run["latency_ms"].get(key)) for key in _LATENCIES]
        counts = [str(run[key]) for key in ("n_queries", "n_not_common", "n_failed", "n_unanswered")]
        lines.append("| " + " | ".join([run["name"], run["profile"], run["commit"] or "-", *counts, *times]) + " |")
    lines += [
        "",
        f"Percent with the {percent} interval of a bootstrap over questions ({comparison['resamples']:,} resamples, "
        f"seed {comparison['seed']}). Differences from {runs[0]['name']} in points, with the p-value of a paired, "
        "two-sided randomization test; p-values are not corrected for their number. A failed or unanswered question "
        "counts as wrong.",
        "",
    ]
    head = ["metric", "n", *(run["name"] for run in runs)]
    for run in runs[1:]:
        head += [f"{run['name']}: difference", "p"]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in comparison["metrics"]]
    if comparison["not_compared"]:
        lines += ["", "Not in all runs: "]
        lines[-1] += "; ".join(f"{row['name']} ({', '.join(row['only_in'])})" for row in comparison["not_compared"])
    return "\n".join(lines) + "\n"


def _same_dataset(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.metrics["dataset"] != first.metrics["dataset"]:
            raise ValueError(
                f"{run.folder} is a run over {run.metrics['dataset']}, {first.folder} one over "
                f"{first.metrics['dataset']}; only runs over the same data set compare"
            )


def _labels(folders: Sequence[Path]) -> list[str]:
    """Returns the shortest ends of the folders' paths that tell them apart, numbered where a folder comes twice."""
    whole = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, whole)) + 1):
        labels = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(labels)) == len(set(whole)):
            break
    return [label if labels.count(label) == 1 else f"{label} ({place + 1})" for place, label in enumerate(labels)]


def _about(run: Run, label: str, common: Sequence[Key]) -> dict[str, Any]:
    return {
        "name": label,
        "profile": run.metrics.get("profile") or "-",
        "commit": (run.metrics.get("commit") or "")[:10] or None,
        "n_queries": len(run.outcomes),
        "n_not_common": len(run.outcomes) - len(common),
        "n_failed": sum(run.outcomes[key].failed is not None for key in common),
        "n_unanswered": sum(run.outcomes[key].unanswered for key in common),
        "failed": [run.outcomes[key].id for key in common if run.outcomes[key].failed is not None],
        "latency_ms": run.metrics.get("latency_ms") or {},
    }


def _row(
    name: str, tables: Sequence[dict[Key, float]], run: Run, labels: Sequence[str], resamples: int, seed: int
) -> dict[str, Any]:
    keys = [key for key in tables[0] if all(key in table for table in tables)]
    columns = [[table[key] for key in keys] for table in tables]
    groups = [is_unseen_question(run.outcomes[key]) for key in keys] if name == HARMONIC else None
    against = [difference(columns[0], other, groups, resamples=resamples, seed=seed) for other in columns[1:]]
    figures = [figure(column, groups, resamples=resamples, seed=seed) for column in columns]
    return {
        "name": name,
        "n": len(keys),
        "figures": [{"run": label} | asdict(found) for label, found in zip(labels, figures, strict=True)],
        "differences": [{"run": label} | asdict(found) for label, found in zip(labels[1:], against, strict=True)],
    }


def _within(rank: int | None, k: int) -> float:
    return float(rank is not None and rank <= k)


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [row["name"], str(row["n"])]
    cells += [f"{100 * f['value']:.1f} [{100 * f['low']:.1f}, {100 * f['high']:.1f}]" for f in row["figures"]]
    for found in row["differences"]:
        span = f"[{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"
        cells += [f"{100 * found['value']:+.1f} {span}", _p(found["p_value"])]
    return cells


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
