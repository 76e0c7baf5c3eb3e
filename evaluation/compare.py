"""Compares runs (`omgm compare`): every metric with its interval, every run against the first with a p-value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.image_overlap import NOTE
from evaluation.journal import Row, read_rows
from evaluation.metrics import CUTOFFS, Outcome, counts_of, is_unseen_question, metric_names
from evaluation.protocol import comparable
from evaluation.records import RECORDS, outcome_of, read_records
from evaluation.significance import LEVEL, RESAMPLES, difference, figure
from evaluation.summary import counts_line
from indexes.image_copies import KnownImages
from retriever.files import read_object
from retriever.identity import differences, short_hash
from retriever.wording import counted

QuestionKey = tuple[str, str, str]
"""Id, image and text of a question."""
MetricScores = dict[str, dict[QuestionKey, float]]
"""For each metric, the scores (0 to 1) of the questions that have one."""
HARMONIC = "infoseek, harmonic mean of the splits"
_MADE_FROM = "run.json"
_LATENCIES = ("retrieve_p50", "answer_p50")
_DIFFERENCES = 12  # most that the table shows of each run


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run.

    Attributes:
        folder: Its folder.
        metrics: Its `metrics.json`.
        outcomes: Its outcomes by question.
        labels: A hash of what is right, by question.
        images: The image of each question, by the question's id; none if the run does not note them.
        made_from: What it was made from (`retriever.identity.agree`), empty if the run does not note it.
    """

    folder: Path
    metrics: Mapping[str, Any]
    outcomes: Mapping[QuestionKey, Outcome]
    labels: Mapping[QuestionKey, int]
    images: KnownImages
    made_from: Mapping[str, Any] = field(default_factory=dict)

    @property
    def knowledge_base(self) -> str | None:
        """A hash of the knowledge base of its index, if the run notes it."""
        of_index = self.made_from.get("index") or {}
        knowledge_base: str | None = of_index.get("inputs", {}).get("knowledge_base")
        return knowledge_base

    @property
    def judge(self) -> str | None:
        """The model that judged its answers, if one did."""
        judge: str | None = self.metrics.get("bem") or (self.metrics.get("models") or {}).get("judge")
        return judge


def compare(
    folders: Sequence[Path],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    force: bool = False,
    force_flag: str = "force=True",
) -> dict[str, Any]:
    """Compares runs over the questions that they have in common.

    Two questions are the same if their ids, texts and images are, the latter by name or by content. Failed and
    unanswered questions count as wrong. Metrics that not all runs have are listed under `not_compared`. P-values are
    not corrected for multiple comparisons.

    Args:
        folders: Folders that `omgm evaluate` wrote, at least two; the others are compared with the first.
        resamples: Draws of the bootstrap and of the randomization test.
        seed: Seed of both.
        force: Whether to compare runs of different protocols too.
        force_flag: What the caller's user writes for that.

    Returns:
        The comparison, ready for JSON.

    Raises:
        ValueError: There are fewer than two runs, one is not finished, their data sets or protocols differ, or they
            have no question in common.
    """
    if len(folders) < 2:
        raise ValueError(f"a comparison needs at least two runs, got {len(folders)}")
    runs = [load_run(folder) for folder in folders]
    runs = [_named_alike(run, runs[0]) for run in runs]
    _same_dataset(runs)
    labels = _labels(folders)
    problem = comparable({label: run.metrics.get("protocol") for label, run in zip(labels, runs, strict=True)})
    if problem and not force:
        raise ValueError(f"{problem}, so their scores do not mean the same; {force_flag} compares them nevertheless")
    common = [key for key in runs[0].outcomes if all(key in run.outcomes for run in runs)]
    if not common:
        raise ValueError("the runs have no question in common (same id, image and text); compare runs of one file")
    others = [*_other_images(runs, labels, common), *_other_labels(runs, labels, common), *_other_notes(runs, labels)]
    problem = "; ".join(filter(None, [problem, *others]))
    tables = [_metric_scores(run, common) for run in runs]
    names = list(dict.fromkeys(name for table in tables for name in table))
    shared = [name for name in names if all(name in table for table in tables)]
    return {
        "dataset": runs[0].metrics["dataset"],
        **({"warning": problem} if problem else {}),
        "n_common": len(common),
        "level": LEVEL,
        "resamples": resamples,
        "seed": seed,
        "runs": [_describe(run, label, common, runs[0]) for run, label in zip(runs, labels, strict=True)],
        "metrics": [_row(name, [table[name] for table in tables], runs[0], labels, resamples, seed) for name in shared],
        "not_compared": [
            {"name": name, "only_in": [label for label, table in zip(labels, tables, strict=True) if name in table]}
            for name in names
            if name not in shared
        ],
    }


def load_run(folder: Path) -> FinishedRun:
    """Loads a run from its `metrics.json` and `queries.jsonl`.

    Raises:
        ValueError: A file is missing or was not written by `omgm evaluate`.
    """
    for name in ("metrics.json", RECORDS):
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: no {name}; it is not a finished run of omgm evaluate")
    try:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        dataset = metrics["dataset"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: not a run of omgm evaluate ({type(error).__name__}: {error})") from error
    outcomes, labels = dict[QuestionKey, Outcome](), dict[QuestionKey, int]()
    if "mode" in metrics:
        for row, outcome in agent_outcomes(folder):
            key = outcome.id, "", row["question"]
            outcomes[key], labels[key] = outcome, short_hash(sorted(row["answers"]))
    else:
        counts = (metrics.get("index") or {}).get("counts") or {}
        for record in read_records(folder / RECORDS):
            gold, key = record.gold, (record.id, *record.asks)
            outcomes[key] = outcome_of(record, counts.get("entities", CUTOFFS[-1]))
            labels[key] = short_hash([sorted(gold.entities), gold.section, sorted(gold.answers)])
    for key, outcome in outcomes.items():
        if not all(0 <= score <= 1 for score in outcome.answer_scores.values()):  # also false for NaN
            raise ValueError(
                f"{folder / RECORDS}: {key[0]}: a score must be from 0 to 1, got {dict(outcome.answer_scores)}"
            )
    if not outcomes or not dataset:
        raise ValueError(f"{folder}: the run has no questions or does not name its data set")
    made_from = read_object(folder / _MADE_FROM) if (folder / _MADE_FROM).is_file() else {}
    images = KnownImages.load(folder / NOTE)
    return FinishedRun(folder, metrics, outcomes, labels, images, made_from)


def _named_alike(run: FinishedRun, first: FinishedRun) -> FinishedRun:
    """Returns a run whose images are named as in the first, if they are copies."""
    names = {(id, text): image for id, image, text in first.outcomes}
    copies = {id for id, _ in run.images.same(first.images, zip(run.images.ids, run.images.ids, strict=True))}

    def named(key: QuestionKey) -> QuestionKey:
        id, image, text = key
        return id, names.get((id, text), image) if id in copies else image, text

    outcomes = {named(key): outcome for key, outcome in run.outcomes.items()}
    return replace(run, outcomes=outcomes, labels={named(key): label for key, label in run.labels.items()})


def _other_images(runs: Sequence[FinishedRun], labels: Sequence[str], keys: Sequence[QuestionKey]) -> Iterator[str]:
    """Says of each run how many of the questions were asked with other images than in the first, under their names."""
    first = runs[0].images
    for run, label in zip(runs[1:], labels[1:], strict=True):
        known = {id for id, *_ in keys} & {*first.ids} & {*run.images.ids}
        if others := len(known) - len(run.images.same(first, ((id, id) for id in known))):
            yield f"in {label}, {others} of {counted(len(keys), 'common question')} show other images"


def _other_labels(runs: Sequence[FinishedRun], names: Sequence[str], keys: Sequence[QuestionKey]) -> Iterator[str]:
    """Says of each run how many of the questions have other right answers, entities or sections than in the first."""
    for run, name in zip(runs[1:], names[1:], strict=True):
        if others := sum(run.labels[key] != runs[0].labels[key] for key in keys):
            yield f"in {name}, {others} of {counted(len(keys), 'common question')} have other labels than in {names[0]}"


def _other_notes(runs: Sequence[FinishedRun], labels: Sequence[str]) -> Iterator[str]:
    """Says of each run whether its knowledge base, or what judged its answers, is not that of the first."""
    first = runs[0]
    for run, label in zip(runs[1:], labels[1:], strict=True):
        if None not in (run.knowledge_base, first.knowledge_base) and run.knowledge_base != first.knowledge_base:
            yield f"the index of {label} is of another knowledge base than that of {labels[0]}"
        if None not in (run.judge, first.judge) and run.judge != first.judge:
            yield f"another model judged the answers of {label} than those of {labels[0]}"


def _metric_scores(run: FinishedRun, keys: Sequence[QuestionKey]) -> MetricScores:
    """Returns, for each metric, the scores of the questions in `keys` that have one."""
    outcomes = {key: run.outcomes[key] for key in keys}
    members = list(outcomes.values())
    table: MetricScores = {}
    known = {key: outcome for key, outcome in outcomes.items() if outcome.entity_known}
    for step in sorted({step for outcome in known.values() for step in outcome.ranks}):
        for k in CUTOFFS:
            hits = {key: _within(outcome.ranks.get(step), k) for key, outcome in known.items()}
            table[f"{step} recall@{k}"] = hits
    labeled = {key: outcome for key, outcome in outcomes.items() if outcome.section_correct is not None}
    if labeled:
        table["section recall@1"] = {key: float(bool(outcome.section_correct)) for key, outcome in labeled.items()}
    for name, group in (("section", labeled), ("pseudo", outcomes)):
        if any(name in outcome.section_ranks for outcome in group.values()):
            for k in CUTOFFS:
                hits = {key: _within(outcome.section_ranks.get(name), k) for key, outcome in group.items()}
                table.setdefault(f"{name} recall@{k}", hits)
    for name in metric_names(members):
        table[name] = {key: outcome.answer_scores.get(name, 0.0) for key, outcome in outcomes.items()}
    of_splits = {key for key, outcome in outcomes.items() if is_unseen_question(outcome) is not None}
    if "infoseek" in table and len({is_unseen_question(outcomes[key]) for key in of_splits}) == 2:
        table[HARMONIC] = {key: score for key, score in table["infoseek"].items() if key in of_splits}
    return table


def as_markdown(comparison: Mapping[str, Any]) -> str:
    """Returns a comparison as a Markdown table: scores in percent, differences in points."""
    runs = comparison["runs"]
    level = f"{100 * comparison['level']:g} %"
    questions = counted(comparison["n_common"], "common question")
    lines = [
        f"# {comparison['dataset']}: {counted(len(runs), 'run')} over {questions}",
        "",
        "| run | profile | protocol | commit | questions | not common | retrieval p50 | answer p50 | counts |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    shared = {"n_queries": comparison["n_common"]}
    for run in runs:
        times = [_milliseconds(run["latency_ms"].get(key)) for key in _LATENCIES]
        cells = [run["name"], run["profile"], run["protocol"] or "-", run["commit"] or "-"]
        cells += [str(run["n_queries"]), str(run["n_not_common"])]
        lines.append("| " + " | ".join([*cells, *times, counts_line(run | shared) or "-"]) + " |")
    lines += ["", f"Warning: {comparison['warning']}."] if "warning" in comparison else []
    for run in (run for run in runs if run["differs"]):
        said = run["differs"][:_DIFFERENCES]
        said += [f"{more} more (--json)"] if (more := len(run["differs"]) - len(said)) else []
        lines += ["", f"{run['name']} differs from {runs[0]['name']}: {'; '.join(said)}."]
    lines += [
        "",
        f"Percent, with the {level} interval of a bootstrap over questions ({comparison['resamples']:,} resamples, "
        f"seed {comparison['seed']}). Differences from {runs[0]['name']} are in points, with the p-value of a paired, "
        "two-sided randomization test, not corrected for multiple comparisons. Failed and unanswered questions count "
        "as wrong.",
        "",
    ]
    head = ["metric", "n", *(run["name"] for run in runs)]
    for run in runs[1:]:
        head += [f"{run['name']}: difference", "p"]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in comparison["metrics"]]
    if comparison["not_compared"]:
        missing = [f"{row['name']} ({', '.join(row['only_in'])})" for row in comparison["not_compared"]]
        lines += ["", f"Not in all runs: {'; '.join(missing)}"]
    return "\n".join(lines) + "\n"


def _same_dataset(runs: Sequence[FinishedRun]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if run.metrics["dataset"] != first.metrics["dataset"]:
            raise ValueError(
                f"{run.folder} is a run over {run.metrics['dataset']}, {first.folder} one over "
                f"{first.metrics['dataset']}; only runs over the same data set can be compared"
            )


def _labels(folders: Sequence[Path]) -> list[str]:
    """Returns the shortest path suffixes that tell the folders apart, numbered if a folder is given twice."""
    whole = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, whole)) + 1):
        labels = ["/".join(parts[-depth:]) for parts in whole]
        if len(set(labels)) == len(set(whole)):
            break
    return [label if labels.count(label) == 1 else f"{label} ({place + 1})" for place, label in enumerate(labels)]


def _describe(run: FinishedRun, label: str, common: Sequence[QuestionKey], first: FinishedRun) -> dict[str, Any]:
    known = (run.metrics.get("overlap") or {}).get("questions", {})
    return {
        "name": label,
        "profile": run.metrics.get("profile") or "-",
        "protocol": run.metrics.get("protocol"),
        "commit": (run.metrics.get("commit") or "")[:10] or None,
        "n_queries": len(run.outcomes),
        "n_not_common": len(run.outcomes) - len(common),
        **counts_of([run.outcomes[key] for key in common]),
        "n_overlap": sum(id in known for id, *_ in common),
        "failed": [run.outcomes[key].id for key in common if run.outcomes[key].failed is not None],
        "latency_ms": run.metrics.get("latency_ms") or {},
        "differs": [*differences("", first.made_from, run.made_from)] if run.made_from and first.made_from else [],
    }


def _row(
    name: str,
    tables: Sequence[dict[QuestionKey, float]],
    run: FinishedRun,
    labels: Sequence[str],
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    keys = [key for key in tables[0] if all(key in table for table in tables)]
    columns = [[table[key] for key in keys] for table in tables]
    groups = [is_unseen_question(run.outcomes[key]) for key in keys] if name == HARMONIC else None
    figures = [figure(column, groups, resamples=resamples, seed=seed) for column in columns]
    differences = [difference(columns[0], other, groups, resamples=resamples, seed=seed) for other in columns[1:]]
    return {
        "name": name,
        "n": len(keys),
        "figures": [{"run": label} | asdict(value) for label, value in zip(labels, figures, strict=True)],
        "differences": [{"run": label} | asdict(value) for label, value in zip(labels[1:], differences, strict=True)],
    }


def _within(rank: int | None, k: int) -> float:
    return float(rank is not None and rank <= k)


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [row["name"], str(row["n"])]
    cells += [f"{100 * f['value']:.1f} [{100 * f['low']:.1f}, {100 * f['high']:.1f}]" for f in row["figures"]]
    for d in row["differences"]:
        cells += [f"{100 * d['value']:+.1f} [{100 * d['low']:+.1f}, {100 * d['high']:+.1f}]", _p(d["p_value"])]
    return cells


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"


def agent_outcomes(folder: Path) -> Iterator[tuple[Row, Outcome]]:
    """Yields the row and the outcome of each question of an agent's run.

    Besides the scores of its data set, an outcome has the judge's verdict and the scores of MMSearch's single steps, if
    the run has them; a question that is missing from a step's file scores 0 there, as in the final score.

    Raises:
        ValueError: A file was not written by `omgm evaluate`.
    """
    extra = {name: _scores(folder / f"{file}.jsonl", key) for name, file, key in _FILES if _has(folder, file)}
    path = folder / "queries.jsonl"
    try:
        for row in read_rows(path):
            scores = {name: float(value) for name, value in row["scores"].items()}
            scores |= {name: given.get(row["id"], 0.0) for name, given in extra.items()}
            outcome = Outcome(
                id=row["id"],
                groups=row["groups"],
                ranks={},
                section_correct=None,
                answer_correct=next(iter(scores.values())) >= 0.5,
                unanswered=row["answer"] is None,
                failed=row["failed"],
                answer_scores=scores,
                entity_known=False,
                without_reference=not row["answers"],
            )
            yield row, outcome
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"{path}: not a run of omgm evaluate --mode ({type(error).__name__}: {error})") from error


_FILES = (("llm_judge", "judge", "verdict"), ("rerank", "rerank", "score"), ("summarization", "summarization", "score"))
"""The name of each further metric, its file, and its key there."""


def _has(folder: Path, file: str) -> bool:
    return (folder / f"{file}.jsonl").is_file()


def _scores(path: Path, key: str) -> dict[str, float]:
    return {row["id"]: float(row[key] or 0.0) for row in read_rows(path)}
