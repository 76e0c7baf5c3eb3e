"""Runs an evaluation of a search agent, from tasks to result files (`omgm evaluate --mode`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from evaluation.answers import answer_f1
from evaluation.datasets.question import Question, RowImages, SearchTask, TaskReader
from evaluation.journal import fill, read_rows, warn_of_failures
from evaluation.judge import judge
from evaluation.protocol import write_scores
from evaluation.run import check_ids, claim
from evaluation.search.figures import Record, Trail, main_scores, search_metrics
from evaluation.search.report import write_report
from evaluation.search.scores import rerank_score
from evaluation.search.steps import StepTask
from retriever.files import write_whole
from retriever.identity import Items, files_as_items

T = TypeVar("T")
Ask = Callable[[SearchTask], Trail]
"""Has the agent answer a task and returns its trail. Raises `ValueError` if the task's image is unreadable."""
AskStep = Callable[[StepTask], tuple[str, int | None]]
"""Has the model do a single step; returns its reply and the position of the website that it chose."""
Verdict = Callable[[Question, str], tuple[bool | None, str]]
"""Judges an answer; returns whether it is right (`None` if the judge's reply cannot be parsed) and that reply."""

_FAILED = "the model failed"
_QUERY = "Query: "  # what precedes the query in the thought of MMSearch's search


@dataclass(frozen=True, slots=True)
class SingleStep:
    """One of MMSearch's single-step tasks: how to read its tasks and who does them."""

    read: Callable[[bool], Iterator[StepTask]]
    ask: AskStep


@dataclass(frozen=True, slots=True)
class SearchRun:
    """What to evaluate and how.

    Attributes:
        dataset: The data set's name.
        mode: The agent's policy.
        read: Reads the tasks.
        ask: Has the agent answer a task.
        steps: The single-step tasks by name, `rerank` and `summarization`.
        verdict: Judges answers; without it, strings are matched.
        header: What else identifies the run in `metrics.json`, such as profile, settings and index.
        concurrency: Number of tasks asked concurrently.
        depends_on: What else the answers depend on, such as weights and servers; a resumed run must have the same.
        deviations: A sentence on each deviation from the published protocol, by its short name (`Protocol`).
        known: Tells whether an entity is in the index.
        recorded: Folders with what was recorded of the run, which go if another run replaces it.
        further: Computes further entries of `metrics.json` from the score of each question, by its id.
    """

    dataset: str
    mode: str
    read: TaskReader
    ask: Ask
    steps: Mapping[str, SingleStep] = field(default_factory=dict)
    verdict: Verdict | None = None
    header: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 1
    depends_on: Mapping[str, Any] = field(default_factory=dict)
    deviations: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[str], bool] = lambda _: True
    recorded: tuple[Path, ...] = ()
    further: Callable[[Mapping[str, float]], Mapping[str, Any]] = lambda _: {}


def evaluate_search(run: SearchRun, out: Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Asks all tasks, scores answers and trajectories, and writes the run to `out`.

    `out` gets `metrics.json`, `scores.PROTOCOL.json`, `report.html`, and one JSON line per question, with its trail, in
    `queries.jsonl`; those of single steps are in `rerank.jsonl` and `summarization.jsonl`, the judge's in
    `judge.jsonl`.

    A run that is killed and restarted resumes after its last complete batch of `concurrency` questions. Another call
    with the same arguments asks only the failed questions again. With `overwrite`, a run with other inputs is replaced.

    Returns:
        The content of `metrics.json`.

    Raises:
        ValueError: There are no tasks, two share an id, a row is invalid, or `out` holds another run.
    """
    tasks = list(run.read(False))
    check_ids([task.question.id for task in tasks])
    if run.concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {run.concurrency}")
    header = {"dataset": run.dataset, "mode": run.mode, **run.header}
    inputs = {
        **header,
        "judged": run.verdict is not None,
        **run.depends_on,
        "steps": sorted(run.steps),
        **{name: _tasks_of(step) for name, step in run.steps.items()},
        "query images": _images(run.read(True)),
        **{f"images of {name}": _images(step.read(True)) for name, step in run.steps.items()},
    }
    claim(out, inputs, [task.question for task in tasks], None, recorded=run.recorded, overwrite=overwrite)
    records = _filled(out / "queries.jsonl", run, lambda: run.read(True), len(tasks), partial(_answer, run), _failed)
    ids = {task.question.id for task in tasks}
    steps = {}
    for name, step in run.steps.items():
        tasks_of = partial(_chosen, step, ids)
        total = sum(1 for _ in tasks_of(images=False))
        done = _filled(out / f"{name}.jsonl", run, tasks_of, total, partial(_step, step), _failed)
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
        )
    metrics = search_metrics(header, records, steps, verdicts, run.deviations)
    scores = main_scores(records, verdicts)
    metrics |= run.further({record["id"]: score for record, score in zip(records, scores, strict=True)})
    warn_of_failures(out, (record["failed"] for record in records))
    write_whole(out / "metrics.json", json.dumps(metrics, indent=2, ensure_ascii=False, default=str).encode() + b"\n")
    write_scores(out, metrics)
    write_report(out, metrics, records, scores)
    return metrics


def _tasks_of(step: SingleStep) -> Items:
    return Items(((task.question.id, repr(task)) for task in step.read(False)), "task", "another text or label")


def _images(tasks: Iterable[SearchTask | StepTask]) -> Items:
    """Returns the images of tasks; those that are missing may turn up later."""

    def named() -> Iterator[tuple[str, Path | bytes | None]]:
        for task in tasks:
            sites = task.websites if isinstance(task, StepTask) else ()
            further = (task.image_search,)
            for kind, images in enumerate((task.images, *further, *(site.screenshot for site in sites))):
                contents = [*images.found, *(None for _ in images.missing)]
                yield from ((f"{task.question.id} {kind} {n}", content) for n, content in enumerate(contents))

    return files_as_items(named(), "image")


def _filled(
    path: Path,
    run: SearchRun,
    items: Callable[[], Iterable[T]],
    total: int,
    do: Callable[[T], Record],
    again: Callable[[int, Record], bool],
) -> list[Record]:
    """Fills a file of JSON lines (`fill`), `concurrency` items at a time, and returns all of its records."""
    with ThreadPoolExecutor(run.concurrency) as pool:
        fill(path, items, total, run.concurrency, lambda batch: pool.map(do, batch), again)
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
        "gold_missing": bool(question.entity_ids) and not any(map(run.known, question.entity_ids)),
        "scores": judge(question, answer),
        "groups": {name: value for name, value in (task.groups or {}).items() if value},
        "requery": None if trail is None else _requery_of(trail),
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
    answers, score = task.question.answers, 0.0
    if not failed:
        score = answer_f1(said, answers) if answers else rerank_score(chosen, task.valid, task.unsure)
    return {"id": task.question.id, "reply": said, "chosen": chosen, "failed": failed or None, "score": score}


def _judged(run: SearchRun, record: Record) -> Record:
    """Returns the verdict on a record's answer, with that answer: a changed answer is judged again."""
    assert run.verdict is not None
    verdict: bool | None = False
    reply = ""
    if record["answer"]:
        question = Question(record["id"], record["question"], "", tuple(record["answers"]), ())
        verdict, reply = run.verdict(question, record["answer"])
    return {"id": record["id"], "answer": record["answer"], "verdict": verdict, "reply": reply}


def _requery_of(trail: Trail) -> str:
    """Returns the first query of a trail's first text search; empty if there was no search or it had no query."""
    for one in trail["rounds"]:
        for call in one["calls"]:
            queries = call["arguments"].get("queries") if isinstance(call["arguments"], Mapping) else None
            if call["tool"] in ("text_search", "web_search") and queries:
                if one["thought"].startswith(_QUERY):  # the reply as it is scored
                    return str(one["thought"]).removeprefix(_QUERY)
                return "" if one["problem"] else str(queries[0] if isinstance(queries, list) else queries)
    return ""


def _missing(images: RowImages) -> str:
    return f"its image {images.missing[0]} was not found" if images.missing else ""
