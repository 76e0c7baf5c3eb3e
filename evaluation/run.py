"""One evaluation, from questions and pictures to figures (`omgm evaluate`): resumes; one bad query fails alone."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

from evaluation.datasets import Question, find_query_image
from evaluation.judge import judge_all
from evaluation.metrics import Outcome, summarize
from evaluation.records import (
    Line,
    calibration_of,
    latency_of,
    make_line,
    outcome_of,
    read_lines,
    write_trec,
)
from evaluation.report import write_report
from indexes.growing import GrowingLines
from retriever.evidence import best_evidence
from retriever.files import write_whole
from retriever.images import load_image
from retriever.protocols import EntityIndex, Generator, QueryRetriever
from retriever.types import Generation, GenerationRequest, Query, RetrievalResult

if TYPE_CHECKING:
    from evaluation.bem import Bem

LINES = "queries.jsonl"
_LATENCY_SAMPLE = 100
_WARM_UP = 2  # a first call pays for lazy set-up

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger(__name__)


def evaluate(
    retriever: QueryRetriever,
    generator: Generator | None,
    questions: Sequence[Question],
    query_images: Path,
    out: Path,
    *,
    dataset: str,
    profile_name: str,
    settings: Mapping[str, Any],
    index_info: Mapping[str, Any],
    batch_size: int = 16,
    progress: bool = True,
    bem: Bem | None = None,
    bem_fingerprint: str | None = None,
    entity_picture: Callable[[str], Path | None] | None = None,
) -> dict[str, Any]:
    """Returns what it writes to `out/metrics.json`, once every question is asked.

    Beside it lie `queries.jsonl` (a record a query, see `records.make_line`), a TREC run per step, `qrels.txt` and
    `report.html`. Records are written batch by batch: started again with the same arguments, a run goes on after the
    last whole batch, and a query that failed stays failed. A query fails when its picture is missing or unreadable or
    when retriever or generator raise for it alone; it counts as wrong and is listed.

    Latency is measured one query at a time: `retrieve` is the steps with the decoded picture at hand, `answer` the
    steps and the generator. With a larger batch size up to 100 of the questions are asked once more for it.

    Args:
        retriever: The steps with their index.
        generator: Answers from the evidence; `None` measures retrieval alone.
        questions: What to ask.
        query_images: The folder of their pictures.
        out: The folder to write to; made when absent.
        dataset: Name of the data set, for the report.
        profile_name: Name of the profile, for the report.
        settings: The settings of the run, for the report.
        index_info: What index it was, for the report.
        batch_size: Queries at a time.
        progress: Whether to show a progress bar.
        bem: E-VQA's learned judge; without it the report says what stands in for it.
        bem_fingerprint: Which one it is; a run goes on only with the judge that it began with.
        entity_picture: Finds the picture of an entity by its id, for the report.

    Raises:
        ValueError: No questions, two of one id, no folder of pictures, or `out` holds another run.
    """
    _check(questions, query_images, batch_size)
    out.mkdir(parents=True, exist_ok=True)
    header: dict[str, Any] = {"dataset": dataset, "profile": profile_name, "settings": settings, "index": index_info}
    header |= {} if bem is None else {"bem": bem_fingerprint}
    _claim(out, header | {"generator": generator and generator.name, "batch_size": batch_size}, questions)

    def generate(requests: Sequence[GenerationRequest]) -> list[Generation]:
        assert generator is not None
        return _runner().run(generator.generate(requests))

    answer = None if generator is None else generate
    _ask_all(retriever, answer, bem, questions, query_images, out / LINES, batch_size, progress)
    latency = _latency(retriever, answer, questions, query_images, out / LINES, batch_size)
    outcomes = [outcome_of(line) for line in read_lines(out / LINES)]
    metrics = _metrics(outcomes, header, questions[0].style, latency)
    write_trec(read_lines(out / LINES), out, tag=f"omgm-{profile_name}")
    write_whole(out / "metrics.json", json.dumps(metrics, indent=2, ensure_ascii=False, default=str).encode() + b"\n")
    write_report(out, query_images, entity_picture)
    return metrics


Answer = Callable[[Sequence[GenerationRequest]], list[Generation]]


@cache
def _runner() -> asyncio.Runner:
    """Returns the one loop of every run: a generator's open connections serve no other than the one they began in."""
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def _ask_all(
    retriever: QueryRetriever,
    answer: Answer | None,
    bem: Bem | None,
    questions: Sequence[Question],
    images: Path,
    path: Path,
    batch_size: int,
    progress: bool,
) -> None:
    with GrowingLines(path, batch_size, len(questions)) as lines:
        bar = tqdm(total=len(questions), initial=lines.done, unit="query", disable=not progress)
        while lines.done < len(questions):
            batch = questions[lines.done : lines.done + batch_size]
            lines.append(_ask(retriever, answer, bem, batch, images))
            bar.update(len(batch))
        bar.close()


def _ask(
    retriever: QueryRetriever, answer: Answer | None, bem: Bem | None, batch: Sequence[Question], images: Path
) -> list[Line]:
    reasons: dict[str, str] = {}
    queries = [query for question in batch if (query := _query(question, images, reasons))]
    start = time.perf_counter()
    found = _each(retriever.retrieve, queries, [query.id for query in queries], reasons, "retrieval")
    spent = {"batch": float(len(queries)), "retrieve": _since(start)}

    generations: dict[str, Generation] = {}
    if answer is not None:
        requests = {q.id: _request(retriever.index, q, found[q.id]) for q in queries if q.id in found}
        start = time.perf_counter()
        generations = _each(answer, list(requests.values()), list(requests), reasons, "generator")
        spent["generate"] = _since(start)
    given = [generations[question.id].answer if question.id in generations else None for question in batch]
    scores = judge_all(batch, given, bem) if answer is not None else [None] * len(batch)
    return [
        make_line(
            question,
            retriever.index,
            found.get(question.id),
            generations.get(question.id),
            asked=answer is not None,
            failed=reasons.get(question.id),
            timings_ms=spent | (found[question.id].timings_ms if question.id in found else {}),
            scores=worth,
        )
        for question, worth in zip(batch, scores, strict=True)
    ]


def _query(question: Question, images: Path, reasons: dict[str, str]) -> Query | None:
    path = find_query_image(images, question.image_id)
    if path is None:
        reasons[question.id] = f"picture: {question.image_id!r} is not in the folder of query pictures"
        return None
    try:
        return Query(load_image(path), question.question, question.id)
    except ValueError as error:
        reasons[question.id] = f"picture: {error}"
        return None


def _request(index: EntityIndex, query: Query, retrieved: RetrievalResult) -> GenerationRequest:
    return GenerationRequest(query.question, query.image, best_evidence(index, retrieved.candidates))


def _each(
    do: Callable[[Sequence[T]], list[R]], items: list[T], ids: list[str], reasons: dict[str, str], stage: str
) -> dict[str, R]:
    """Returns results by id; when the batch fails, its items are tried alone, and why one failed goes to `reasons`."""
    if not items:
        return {}
    try:
        return dict(zip(ids, do(items), strict=True))
    except Exception as error:  # whatever a model or a server raises: one query's failure is not the run's
        logger.warning("%s of %d queries failed: %s", stage, len(items), error)
        if len(items) == 1:
            reasons[ids[0]] = f"{stage}: {type(error).__name__}: {error}"
            return {}
    alone: dict[str, R] = {}
    for item, one in zip(items, ids, strict=True):
        alone |= _each(do, [item], [one], reasons, stage)
    return alone


def _latency(
    retriever: QueryRetriever,
    answer: Answer | None,
    questions: Sequence[Question],
    images: Path,
    path: Path,
    batch_size: int,
) -> dict[str, Any]:
    """Returns percentiles in milliseconds of single queries, those of the run itself when it asked one at a time."""
    good = [line["failed"] is None for line in read_lines(path)]
    if batch_size == 1:
        timings = [line["timings_ms"] for line, fine in zip(read_lines(path), good, strict=True) if fine]
    else:
        usable = [question for question, fine in zip(questions, good, strict=True) if fine]
        sample = usable[:: -(-len(usable) // _LATENCY_SAMPLE) or 1]
        lines = [
            line
            for question in sample[:_WARM_UP] + sample
            for line in _ask(retriever, answer, None, [question], images)
        ]
        timings = [line["timings_ms"] for line in lines[len(sample[:_WARM_UP]) :] if line["failed"] is None]
    return latency_of(timings, answered=answer is not None)


def _metrics(
    outcomes: Sequence[Outcome], header: Mapping[str, Any], style: str, latency: Mapping[str, Any]
) -> dict[str, Any]:
    figures = summarize(outcomes, style)
    named = {"dataset": header["dataset"], "profile": header["profile"]}
    tail = {"latency_ms": latency, **{key: header[key] for key in ("settings", "index", "bem") if key in header}}
    return named | figures | {"calibration": calibration_of(outcomes)} | tail | {"commit": commit()}


def _check(questions: Sequence[Question], query_images: Path, batch_size: int) -> None:
    if not questions:
        raise ValueError("the question file holds no questions that are kept")
    if len({question.id for question in questions}) != len(questions):
        raise ValueError("two questions share an id; every id must name one question")
    if not query_images.is_dir():
        raise ValueError(f"{query_images}: no such folder of query pictures (--query-images)")
    if batch_size < 1:
        raise ValueError(f"batch_size: {batch_size} where at least 1 is due")


def _claim(out: Path, header: Mapping[str, Any], questions: Sequence[Question]) -> None:
    """Notes in `run.json` what this run is, or checks that the folder's run is the same."""
    digest = hashlib.sha256("\n".join(map(repr, questions)).encode()).hexdigest()
    identity = json.loads(json.dumps(dict(header) | {"questions_sha256": digest}, default=str))
    path = out / "run.json"
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        differing = sorted(k for k in identity.keys() | before.keys() if identity.get(k) != before.get(k))
        if differing:
            raise ValueError(f"{out}: holds a run with other {', '.join(differing)}; choose another --out or delete it")
    else:
        write_whole(path, json.dumps(identity, indent=2, ensure_ascii=False).encode() + b"\n")


def commit() -> str | None:
    """Returns the commit of the code, `-dirty` where it was changed since; `None` outside a repository."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", os.fspath(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("no commit to note: %s", error)
        return None


def _since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)
