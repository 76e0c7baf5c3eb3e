"""One evaluation of a search agent, from tasks to figures (`omgm evaluate --mode`)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evaluation.datasets.question import Question
from evaluation.journal import fill, read_rows, warn_of_failures
from evaluation.judge import NOTES, judge
from evaluation.metrics import percentile
from evaluation.run import claim, commit
from evaluation.search.report import write_report
from evaluation.search.rows import RowImages
from evaluation.search.scores import answer_f1, can_score_requeries, final_score, requery_score, rerank_score
from evaluation.search.steps import StepTask
from evaluation.search.tasks import SearchTask, TaskReader
from evaluation.search.trajectories import Trail, trajectory_figures
from evaluation.search.verdicts import agreement, string_match
from retriever.files import write_whole

T = TypeVar("T")
Record = dict[str, Any]
Ask = Callable[[SearchTask], Trail]
"""Lets the agent answer a task; returns its trail. Raises `ValueError` if the task's image is unreadable."""
AskStep = Callable[[StepTask], tuple[str, int | None]]
"""Lets the model do a single step; returns its reply, and the position of the website that it chose."""
Verdict = Callable[[Question, str], tuple[bool | None, str]]
"""Judges an answer; returns whether it is right, `None` if the judge's reply is unreadable, and that reply."""

_FAILED = "the model failed"


@dataclass(frozen=True, slots=True)
class SingleStep:
    """MMSearch's task for a single step: how its tasks are read, and who does them."""

    read: Callable[[bool], Iterator[StepTask]]
    ask: AskStep


@dataclass(frozen=True, slots=True)
class SearchRun:
    """What is evaluated, and how.

    Attributes:
        dataset: The data set's name.
        mode: The agent's policy.
        read: Reads the tasks.
        ask: Lets the agent answer a task.
        steps: Tasks for single steps by their name, `rerank` and `summarization`.
        verdict: Judges answers; without it, matching of strings does.
        header: The rest of what identifies the run in `metrics.json`, such as profile, settings and index.
        concurrency: Tasks that are asked at once.
    """

    dataset: str
    mode: str
    read: TaskReader
    ask: Ask
    steps: Mapping[str, SingleStep] = field(default_factory=dict)
    verdict: Verdict | None = None
    header: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 1


def evaluate_search(run: SearchRun, out: Path, *, progress: bool = True) -> dict[str, Any]:
    """Asks all tasks, scores answers and trajectories, and writes the run to `out`.

    `out` gets `metrics.json`, `report.html`, and one JSON line per question, with its trail, in `queries.jsonl`; those
    of single steps are in `rerank.jsonl` and `summarization.jsonl`, the judge's in `judge.jsonl`. A run that is killed
    and restarted resumes after its last whole batch of `concurrency` questions; one that is called again with the same
    arguments asks once more only what failed.

    Returns:
        The content of `metrics.json`.

    Raises:
        ValueError: There are no tasks, two share an id, a row is invalid, or `out` holds another run.
    """
    tasks = list(run.read(False))
    _check([task.question.id for task in tasks], run.concurrency)
    out.mkdir(parents=True, exist_ok=True)
    header = {"dataset": run.dataset, "mode": run.mode, **run.header}
    claim(out, header | {"steps": sorted(run.steps), "judged": run.verdict is not None}, [t.question for t in tasks])
    records = _filled(
        out / "queries.jsonl", run, lambda: run.read(True), len(tasks), partial(_answer, run), _failed, progress
    )
    ids = {task.question.id for task in tasks}
    steps = {}
    for name, step in run.steps.items():
        tasks_of = partial(_chosen, step, ids)
        total = sum(1 for _ in tasks_of(images=False))
        done = _filled(out / f"{name}.jsonl", run, tasks_of, total, partial(_step, step), _failed, progress)
        steps[name] = {record["id"]: record["score"] for record in done}
    verdicts = None
    if run.verdict is not None:
        verdicts = _filled(
            out / "judge.jsonl",
            run,
            lambda: records,
            len(records),
            partial(_judged, run),
            lambda place, verdict: verdict.get("answer") != records[place]["answer"],
            progress,
        )
    metrics = _metrics(run, header, records, steps, verdicts)
    warn_of_failures(out, (record["failed"] for record in records))
    write_whole(out / "metrics.json", json.dumps(metrics, indent=2, ensure_ascii=False, default=str).encode() + b"\n")
    write_report(out, metrics, records, _main_scores(records, verdicts))
    return metrics


def _filled(
    path: Path,
    run: SearchRun,
    items: Callable[[], Iterable[T]],
    total: int,
    do: Callable[[T], Record],
    again: Callable[[int, Record], bool],
    progress: bool,
) -> list[Record]:
    """Fills a file of JSON lines (`fill`), `concurrency` items at once, and returns all of its records."""
    with ThreadPoolExecutor(run.concurrency) as pool:
        fill(path, items, total, run.concurrency, lambda batch: pool.map(do, batch), again, progress=progress)
    return list(read_rows(path))


def _chosen(step: SingleStep, ids: Collection[str], *, images: bool = True) -> Iterator[StepTask]:
    return (task for task in step.read(images) if task.question.id in ids)


def _failed(_: int, record: Record) -> bool:
    return record["failed"] is not None


def _answer(run: SearchRun, task: SearchTask) -> Record:
    trail, failed = None, _missing(task.images)
    if not failed:
        try:
            trail = run.ask(task)
        except ValueError as error:
            failed = str(error)
        else:
            failed = trail.get("failure") or (trail["stopped"] if trail["stopped"].startswith(_FAILED) else "")
    question, answer = task.question, None if trail is None else trail["answer"]
    return {
        "id": question.id,
        "question": question.question,
        "answers": list(question.answers),
        "answer": answer,
        "failed": failed or None,
        "scores": judge(question, answer),
        "groups": {name: value for name, value in (task.groups or {}).items() if value},
        "requery": None if trail is None else requery_of(trail),
        "reference_requery": task.requery,
        "trail": trail,
    }


def _step(step: SingleStep, task: StepTask) -> Record:
    missing = [_missing(one) for one in (task.images, *(site.screenshot for site in task.websites))]
    try:
        said, chosen = ("", None) if any(missing) else step.ask(task)
        failed = next(filter(None, missing), "")
    except ValueError as error:
        said, chosen, failed = "", None, str(error)
    answers = task.question.answers
    score = (
        answer_f1(said, answers)
        if answers and said
        else 0.0
        if answers
        else rerank_score(chosen, task.valid, task.unsure)
    )
    return {"id": task.question.id, "reply": said, "chosen": chosen, "failed": failed or None, "score": score}


def _judged(run: SearchRun, record: Record) -> Record:
    """Returns the verdict on a record's answer, with that answer: if it changes, it is judged again."""
    assert run.verdict is not None
    verdict: bool | None = False
    reply = ""
    if record["answer"]:
        question = Question(record["id"], record["question"], "", tuple(record["answers"]), ())
        verdict, reply = run.verdict(question, record["answer"])
    return {"id": record["id"], "answer": record["answer"], "verdict": verdict, "reply": reply}


def requery_of(trail: Trail) -> str:
    """Returns the first query of a trail's first text search; empty without one, and if the model wrote none."""
    for one in trail["rounds"]:
        for call in one["calls"]:
            queries = call["arguments"].get("queries") if isinstance(call["arguments"], Mapping) else None
            if call["tool"] in ("text_search", "web_search") and queries:
                return "" if one["problem"] else str(queries[0] if isinstance(queries, list) else queries)
    return ""


def _metrics(
    run: SearchRun,
    header: Mapping[str, Any],
    records: Sequence[Record],
    steps: Mapping[str, Mapping[str, float]],
    verdicts: Sequence[Record] | None,
) -> dict[str, Any]:
    trails = [record["trail"] for record in records if record["trail"] is not None]
    scores = _main_scores(records, verdicts)
    times = [trail["spent"]["ms"] for trail in trails]
    metrics: dict[str, Any] = {
        **{name: header[name] for name in ("dataset", "mode", "profile") if name in header},
        "n_queries": len(records),
        "n_failed": sum(record["failed"] is not None for record in records),
        "n_unanswered": sum(record["answer"] is None for record in records),
        "answer": _answers(records, scores, verdicts),
    }
    if verdicts is not None:
        metrics["judge"] = _judge_figures(records, verdicts)
    if run.dataset == "mmsearch":
        metrics["mmsearch"] = mmsearch_figures(run.mode, records, steps)
    for name in sorted({name for record in records for name in record["groups"]}):
        groups = defaultdict(list)
        for record, score in zip(records, scores, strict=True):
            groups[record["groups"].get(name, "")].append((record, score))
        metrics[f"by_{name}"] = {
            group: {"n": len(members), "accuracy": _mean([score for _, score in members])}
            | (mmsearch_figures(run.mode, [one for one, _ in members], steps) if run.dataset == "mmsearch" else {})
            for group, members in sorted(groups.items())
            if group
        }
    asked = [score for record, score in zip(records, scores, strict=True) if record["trail"] is not None]
    return metrics | {
        "trajectories": trajectory_figures(trails, asked),
        "latency_ms": {"answer_p50": percentile(times, 50), "answer_p95": percentile(times, 95), "n": len(times)},
        "failed": [{"id": record["id"], "reason": record["failed"]} for record in records if record["failed"]],
        "unanswered": [record["id"] for record in records if record["answer"] is None],
        **{key: header[key] for key in ("settings", "index", "models") if key in header},
        "commit": commit(),
    }


def _main_scores(records: Sequence[Record], verdicts: Sequence[Record] | None) -> list[float]:
    if verdicts is not None:
        return [float(verdict["verdict"] is True) for verdict in verdicts]
    return [float(next(iter(record["scores"].values()))) for record in records]


def _answers(
    records: Sequence[Record], scores: Sequence[float], verdicts: Sequence[Record] | None
) -> dict[str, float | str | None]:
    names = list(records[0]["scores"])
    main = "llm_judge" if verdicts is not None else names[0]
    figures: dict[str, float | str | None] = {"metric": main, "accuracy": _mean(scores)}
    figures |= {name: _mean([record["scores"][name] for record in records]) for name in names if name != main}
    return figures | ({"note": NOTES[main]} if main in NOTES else {})


def _judge_figures(records: Sequence[Record], verdicts: Sequence[Record]) -> dict[str, Any]:
    """Compares the judge's readable verdicts with string matching."""
    pairs = [
        (verdict["verdict"], string_match(record["answer"], record["answers"]))
        for record, verdict in zip(records, verdicts, strict=True)
        if record["answer"] and verdict["verdict"] is not None
    ]
    return {
        "unreadable": sum(verdict["verdict"] is None for verdict in verdicts),
        **agreement([judged for judged, _ in pairs], [matched for _, matched in pairs]),
    }


def mmsearch_figures(
    mode: str, records: Sequence[Record], steps: Mapping[str, Mapping[str, float]]
) -> dict[str, float | None]:
    """Returns MMSearch's four scores and the final one, 0 to 1; a question that a step's file lacks scores 0 there.

    Scores of single steps belong to the pipeline of the paper; for other policies than `mmsearch` they are `None`, and
    so is the final score.
    """
    scores: dict[str, float | None] = {
        "end_to_end": _mean([record["scores"]["mmsearch_f1"] for record in records]),
        "requery": None,
        **{name: None for name in ("rerank", "summarization")},
    }
    if mode == "mmsearch" and can_score_requeries():
        pairs = [(record["requery"] or "", record["reference_requery"]) for record in records]
        scores["requery"] = _mean([requery_score(*pair) for pair in pairs])
    for name, done in steps.items():
        scores[name] = _mean([done.get(record["id"], 0.0) for record in records])
    return {**scores, "final": final_score(scores)}


def _missing(images: RowImages) -> str:
    return f"its image {images.missing[0]} was not found" if images.missing else ""


def _check(ids: Sequence[str], concurrency: int) -> None:
    if not ids:
        raise ValueError("there are no questions: the question file has no usable one")
    if len(set(ids)) != len(ids):
        raise ValueError("two questions share an id; give every question its own")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
