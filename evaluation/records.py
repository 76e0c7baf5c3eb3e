"""What a run leaves on disk: one JSON line per query with every score, TREC run files, qrels."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from evaluation.calibration import calibrate
from evaluation.datasets import Question
from evaluation.judge import judge
from evaluation.metrics import Outcome, percentile, rank_of, ranked
from evaluation.passages import contains_answer, reading_order
from retriever.evidence import best_evidence
from retriever.protocols import EntityIndex
from retriever.types import Candidate, Generation, RetrievalResult

Line = dict[str, Any]
RIGHT = 0.5  # a score of so much counts as a right answer where one has to say yes or no
_RUN_DEPTH = 20  # sections of a query in the run file


def make_line(
    question: Question,
    index: EntityIndex,
    retrieved: RetrievalResult | None,
    generation: Generation | None,
    *,
    asked: bool,
    failed: str | None,
    timings_ms: dict[str, float],
    scores: Mapping[str, float] | None = None,
) -> Line:
    """Returns the record of one query, ready for JSON.

    A section of a candidate is the list `[index, sim_m, sim_t, score]`, its index as published; a ranking is a list of
    `[entity, score]`. `lead` is the index of an article's first section.

    Args:
        question: The question.
        index: Where the entities are.
        retrieved: What was found, `None` when retrieval failed.
        generation: The answer, `None` when there is none.
        asked: Whether a generator takes part in this run.
        failed: Why the query failed, if it did.
        timings_ms: Milliseconds of retrieval and generation, of the whole batch.
        scores: What the answer is worth (`judge.judge_all`), where a model has to judge it; else `judge.judge` does.
    """
    candidates = [] if retrieved is None else retrieved.candidates
    evidence = best_evidence(index, candidates)
    answer = None if generation is None else generation.answer
    rankings: dict[str, list[tuple[str, float]]] = {}
    for step, ranking in ({} if retrieved is None else retrieved.rankings).items():
        rankings[step] = [(index.entity(row).id, float(score)) for row, score in ranking]
    right_entity = evidence is not None and evidence.entity_id in question.entity_ids
    if asked and scores is None:
        scores = judge(question, answer)
    return {
        "id": question.id,
        "question": question.question,
        "image_id": question.image_id,
        "question_type": question.question_type,
        "split": question.data_split,
        "category": question.category,
        "gold": _gold(question, index),
        "failed": failed,
        "candidates": [_candidate(index, candidate) for candidate in candidates],
        "rankings": rankings,
        "ranks": {step: rank_of(question.entity_ids, ranking) for step, ranking in rankings.items()},
        "evidence": evidence and asdict(evidence),
        "section_correct": None
        if question.section_index is None
        else right_entity and evidence is not None and evidence.section_index == question.section_index,
        "section_ranks": _section_ranks(question, index, candidates),
        "answer": answer,
        "confidence": None if generation is None else _number(generation.confidence),
        "span": None if generation is None else generation.span,
        "unanswered": asked and failed is None and answer is None,
        "answer_scores": dict(scores) if asked and scores else {},
        "answer_correct": next(iter(scores.values())) >= RIGHT if asked and scores else None,
        "timings_ms": timings_ms,
    }


def read_lines(path: Path) -> Iterator[Line]:
    """Yields the records of a run, one at a time."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def outcome_of(line: Line) -> Outcome:
    """Returns what counts of a record."""
    return Outcome(
        id=line["id"],
        groups={name: line[name] for name in ("question_type", "split", "category")},
        ranks=line["ranks"],
        section_correct=line["section_correct"],
        answer_correct=line["answer_correct"],
        unanswered=line["unanswered"],
        failed=line["failed"],
        gold_missing=line["gold"]["missing"],
        section_ranks=line.get("section_ranks", {}),  # records of older versions lack these two
        answer_scores=line.get("answer_scores", {}),
        confidence=line["confidence"],
        entity_known=bool(line["gold"]["entities"]),
    )


def calibration_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns how well the confidence of an answer foretells its main score; an abstention is no answer."""
    answered = [o for o in outcomes if o.answer_scores and not o.unanswered and o.confidence is not None]
    # a confidence made from log-probabilities can round past 1
    confidences = [min(max(o.confidence or 0.0, 0.0), 1.0) for o in answered]
    found = calibrate(confidences, [next(iter(o.answer_scores.values())) for o in answered])
    return {"ece": found.ece, "n": found.n, "bins": [asdict(b) for b in found.bins]}


def latency_of(timings: Sequence[Mapping[str, float]], *, answered: bool) -> dict[str, Any]:
    """Returns percentiles of the `timings_ms` of single queries; `answered` says whether a generator took part."""
    retrieve = [t["retrieve"] for t in timings]
    both = [t["retrieve"] + t["generate"] for t in timings] if answered else []
    stages = sorted({stage for t in timings for stage in t} - {"batch", "retrieve"})
    return {
        "retrieve_p50": percentile(retrieve, 50),
        "retrieve_p95": percentile(retrieve, 95),
        "answer_p50": percentile(both, 50),
        "answer_p95": percentile(both, 95),
        "n": len(timings),
        "stages_p50": {stage: percentile([t[stage] for t in timings if stage in t], 50) for stage in stages},
        "stages_p95": {stage: percentile([t[stage] for t in timings if stage in t], 95) for stage in stages},
    }


def write_trec(lines: Iterable[Line], out: Path, tag: str) -> None:
    """Writes TREC's files: `qrels.txt` with one `<step>.run` per step, `qrels.sections.txt` with `sections.run`.

    Equal scores stand in the order of their ids, the later ones written a trifle lower: trec_eval reads scores in
    single precision, ignores ranks and has an order of its own for what is equal. A section is named
    `<entity>#<its index>`; sections have 1 / rank for a score, and the first `_RUN_DEPTH` are listed. White space
    inside an id is written as `%20`, for columns are separated by it.
    """
    with contextlib.ExitStack() as stack:
        files: dict[str, TextIO] = {}
        for name in ("qrels.txt", "qrels.sections.txt", "sections.run"):
            files[name] = stack.enter_context(_replacing(out / name))
        for line in lines:
            query, gold = _token(line["id"]), line["gold"]
            files["qrels.txt"].writelines(f"{query} 0 {_token(entity)} 1\n" for entity in gold["entities"])
            for step, ranking in line["rankings"].items():
                name = f"{step}.run"
                if name not in files:
                    files[name] = stack.enter_context(_replacing(out / name))
                pairs = ranked([(_token(entity), score) for entity, score in ranking])
                falling = _falling([score for _, score in pairs])
                files[name].writelines(
                    f"{query} Q0 {entity} {rank} {score} {_token(tag)}\n"
                    for rank, ((entity, _), score) in enumerate(zip(pairs, falling, strict=True), start=1)
                )
            if gold["section"] is not None:
                right = (f"{query} 0 {_token(entity)}#{gold['section']} 1\n" for entity in gold["entities"])
                files["qrels.sections.txt"].writelines(right)
            found = [(c["entity"], [section[0] for section in c["sections"]]) for c in line["candidates"]]
            files["sections.run"].writelines(
                f"{query} Q0 {_token(entity)}#{'' if section is None else section} {rank} {1 / rank!r} {_token(tag)}\n"
                for rank, (entity, section) in enumerate(reading_order(found)[:_RUN_DEPTH], start=1)
            )


def _falling(scores: Sequence[float]) -> Iterator[np.float32]:
    """Yields falling scores in single precision, each below the one before."""
    bound = np.float32(np.inf)
    for score in scores:
        bound = min(np.float32(score), np.nextafter(bound, np.float32(-np.inf)))
        yield bound


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        yield file
    os.replace(partial, path)


def _token(text: str) -> str:
    return "%20".join(text.split())


def _candidate(index: EntityIndex, candidate: Candidate) -> Line:
    entity = index.entity(candidate.row)
    sections = [
        [entity.sections[s.position].index, _number(s.sim_m), _number(s.sim_t), _number(s.score)]
        for s in candidate.sections
    ]
    return {
        "entity": entity.id,
        "title": entity.title,
        "sim_c": _number(candidate.sim_c),
        "sim_m": _number(candidate.sim_m),
        "score": _number(candidate.score),
        "lead": entity.sections[0].index if entity.sections else None,
        "sections": sections,
    }


def _section_ranks(question: Question, index: EntityIndex, candidates: Sequence[Candidate]) -> dict[str, int | None]:
    entities = [index.entity(candidate.row) for candidate in candidates]
    found = [
        (entity.id, [entity.sections[section.position] for section in candidate.sections])
        for entity, candidate in zip(entities, candidates, strict=True)
    ]
    order = reading_order(found)
    ranks = {"pseudo": _first(s is not None and contains_answer(s.text, question.answers) for _, s in order)}
    if question.section_index is not None:
        right = (s is not None and s.index == question.section_index and e in question.entity_ids for e, s in order)
        ranks["section"] = _first(right)
    return ranks


def _first(hits: Iterable[bool]) -> int | None:
    return next((rank for rank, hit in enumerate(hits, start=1) if hit), None)


def _gold(question: Question, index: EntityIndex) -> Line:
    rows = [row for entity in question.entity_ids if (row := index.row_of(entity)) is not None]
    entities = [index.entity(row) for row in rows]
    section = next((s.title for e in entities for s in e.sections if s.index == question.section_index), None)
    return {
        "entities": list(question.entity_ids),
        "titles": [entity.title for entity in entities],
        "missing": bool(question.entity_ids) and not entities,
        "section": question.section_index,
        "section_title": section,
        "answers": list(question.answers),
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)  # NumPy's own numbers are not JSON
