"""Builds the record of a query from the results of the retriever and the generator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from evaluation.datasets import Question
from evaluation.datasets.dataset import Scores
from evaluation.journal import Row, read_rows, repeated_lines
from evaluation.judge import LearnedJudge, judge, judge_all
from evaluation.metrics import rank_of
from evaluation.own_answers import contains_answer
from evaluation.records import CandidateRecord, GoldRecord, QueryRecord, SectionRecord
from evaluation.trec import reading_order
from retriever.asking import EntityIndex
from retriever.files import write_lines
from retriever.results import best_evidence, values_of
from retriever.types import AnswerFields, Candidate, Generation, RetrievalFields, RetrievalResult

_JUDGED_AT_ONCE = 256
RIGHT = 0.5
"""The lowest score of a right answer, for metrics with more than two values."""


def make_record(
    question: Question,
    index: EntityIndex,
    result: RetrievalResult | None,
    generation: Generation | None,
    *,
    with_generator: bool,
    failed: str | None,
    timings_ms: Mapping[str, float],
    scores: Scores | None = None,
) -> QueryRecord:
    """Builds the record of one query.

    Args:
        question: The question.
        index: The index that the candidates' rows refer to.
        result: The candidates; `None` if retrieval failed.
        generation: The answer; `None` if there is none.
        with_generator: Whether the run has a generator.
        failed: Why the query failed, if it did.
        timings_ms: Milliseconds of its batch.
        scores: The answer's scores if a model judged it (`judge.judge_all`); otherwise `judge.judge` computes them.
    """
    question = _as_spelled(question, index)
    result = result or RetrievalResult(question.id, [], {})
    generation = generation or Generation(None)
    evidence = best_evidence(index, result.candidates)
    rankings = {
        step: [(index.entity(row).id, float(score)) for row, score in ranking]
        for step, ranking in result.rankings.items()
    }
    if not with_generator:
        scores = None
    elif scores is None:
        scores = judge(question, generation.answer)
    return QueryRecord(
        id=question.id,
        question=question.question,
        image_id=question.image_id,
        question_type=question.question_type,
        split=question.data_split,
        category=question.category,
        gold=_gold(question, index),
        failed=failed,
        candidates=[_candidate(index, candidate) for candidate in result.candidates],
        rankings=rankings,
        ranks={step: rank_of(question.entity_ids, ranking) for step, ranking in rankings.items()},
        evidence=generation.evidence or evidence,
        section_correct=None
        if question.section_index is None
        else evidence is not None and _is_right_section(question, evidence.entity_id, evidence.section_index),
        section_ranks=_section_ranks(question, index, result.candidates),
        **values_of(RetrievalFields, result),
        **values_of(AnswerFields, generation) | {"confidence": _number(generation.confidence)},
        span=generation.span,
        thoughts=generation.thoughts,
        unanswered=with_generator and failed is None and generation.answer is None,
        answer_scores=dict(scores or {}),
        answer_correct=_is_right(scores),
        timings_ms=timings_ms,
    )


def judge_again(path: Path, questions: Sequence[Question], bem: LearnedJudge | None) -> None:
    """Judges recorded answers again, with or without `bem`, in `queries.jsonl` and in the file that repeats some rows.

    No question is asked again. Each file is replaced atomically, so killing the process loses nothing.
    """
    asked = {question.id: question for question in questions}

    def judged(file: Path) -> Iterator[Row]:
        rows = read_rows(file, unfinished=True)
        while batch := list(islice(rows, _JUDGED_AT_ONCE)):
            scores = judge_all([asked[row["id"]] for row in batch], [row["answer"] for row in batch], bem)
            for row, own in zip(batch, scores, strict=True):
                yield row | {"answer_scores": own, "answer_correct": _is_right(own)}

    for file in filter(Path.is_file, (path, repeated_lines(path))):
        write_lines(file, judged(file))


def _is_right(scores: Scores | None) -> bool | None:
    return next(iter(scores.values())) >= RIGHT if scores else None


def _as_spelled(question: Question, index: EntityIndex) -> Question:
    """Returns the question with entity ids as the index spells them: `'` for `%27`."""
    rows = [(id, index.row_of(id)) for id in question.entity_ids]
    return replace(question, entity_ids=tuple(id if row is None else index.entity(row).id for id, row in rows))


def _candidate(index: EntityIndex, candidate: Candidate) -> CandidateRecord:
    entity = index.entity(candidate.row)
    return CandidateRecord(
        entity=entity.id,
        title=entity.title,
        sim_c=_number(candidate.sim_c),
        sim_m=_number(candidate.sim_m),
        score=_number(candidate.score),
        lead=entity.sections[0].index if entity.sections else None,
        sections=[
            SectionRecord(entity.sections[s.position].index, _number(s.sim_m), _number(s.sim_t), _number(s.score))
            for s in candidate.sections
        ],
        sim_w=_number(candidate.sim_w),
    )


def _is_right_section(question: Question, entity_id: str, section_index: int | None) -> bool:
    return entity_id in question.entity_ids and section_index == question.section_index


def _section_ranks(question: Question, index: EntityIndex, candidates: Sequence[Candidate]) -> dict[str, int | None]:
    entities = [index.entity(candidate.row) for candidate in candidates]
    order = reading_order(
        [
            (entity.id, [entity.sections[section.position] for section in candidate.sections])
            for entity, candidate in zip(entities, candidates, strict=True)
        ]
    )
    ranks = {"pseudo": _first(s is not None and contains_answer(s.text, question.answers) for _, s in order)}
    if question.section_index is not None:
        ranks["section"] = _first(s is not None and _is_right_section(question, e, s.index) for e, s in order)
    return ranks


def _first(hits: Iterable[bool]) -> int | None:
    return next((rank for rank, hit in enumerate(hits, start=1) if hit), None)


def _gold(question: Question, index: EntityIndex) -> GoldRecord:
    rows = [row for entity in question.entity_ids if (row := index.row_of(entity)) is not None]
    entities = [index.entity(row) for row in rows]
    return GoldRecord(
        entities=list(question.entity_ids),
        titles=[entity.title for entity in entities],
        missing=bool(question.entity_ids) and not entities,
        section=question.section_index,
        section_title=next((s.title for e in entities for s in e.sections if s.index == question.section_index), None),
        answers=list(question.answers),
    )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)  # NumPy's scalars are not JSON
