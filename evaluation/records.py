"""The record of a query with all its scores: one JSON line per query in `queries.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter, ValidationError

from evaluation.datasets.dataset import Scores
from evaluation.metrics import CUTOFFS, Outcome
from evaluation.own_answers import own_contains
from retriever.types import AnswerFields, Evidence, RetrievalFields

RECORDS = "queries.jsonl"


@dataclass(frozen=True, slots=True)
class SectionRecord:
    """The scores of a candidate's section, `None` if not scored; `index` is its published number."""

    index: int
    sim_m: float | None = None
    sim_t: float | None = None
    score: float | None = None


_OF_LIST = BeforeValidator(lambda section: SectionRecord(*section) if isinstance(section, list) else section)


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """A candidate after the last step, with its sections, best first.

    Attributes:
        entity: Id of the entity.
        title: Title of its article.
        sim_c: Step 1's score.
        sim_m: Step 2's score of its best section.
        sim_w: How similar the words on its images are to those on the query's; `None` if these were not read.
        score: The score that ranks the candidates.
        lead: Published number of the article's first section; `None` without sections.
        sections: Its sections.
    """

    entity: str
    title: str = ""
    sim_c: float | None = None
    sim_m: float | None = None
    score: float | None = None
    lead: int | None = None
    sections: Sequence[Annotated[SectionRecord, _OF_LIST, PlainSerializer(astuple)]] = ()
    sim_w: float | None = None


@dataclass(frozen=True, slots=True)
class GoldRecord:
    """The right entities, section and answers of a question.

    Attributes:
        entities: Ids of the right entities.
        titles: Titles of those in the index.
        missing: Whether the index lacks all of them.
        section: Published number of the right section; `None` if the data set names none.
        section_title: Its title, if the index has the section.
        answers: The right answers.
    """

    entities: Sequence[str] = ()
    titles: Sequence[str] = ()
    missing: bool = False
    section: int | None = None
    section_title: str | None = None
    answers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord(RetrievalFields, AnswerFields):
    """One query of a run, with the fields of its retrieval and its answer.

    Attributes:
        id: Id of the question.
        question: Its text.
        image_id: Id of its image.
        question_type: Its type in the data set.
        split: Its split.
        category: Its category.
        gold: The right entities, section and answers.
        failed: Why the query failed, if it did.
        candidates: The candidates, best first.
        rankings: The (entity, score) pairs after each step.
        ranks: The rank of the right entity after each step.
        evidence: The section given to the generator.
        section_correct: Whether that is the right section; `None` if the data set names none.
        section_ranks: Ranks of sections; see `Outcome.section_ranks`.
        answer: The generator's answer; `None` if it abstained or there was no generator.
        confidence: The generator's confidence; `None` without one.
        span: Start and end of the answer in the evidence, for an extractive reader.
        unanswered: Whether the generator abstained.
        thoughts: What a reasoning model thought before it answered; no part of the answer.
        answer_scores: The answer's score by each metric, the data set's own first; empty without a generator.
        answer_correct: Whether the answer is right; `None` without a generator.
        timings_ms: Milliseconds of retrieval, its steps and the generator for the whole batch, and the batch size.
    """

    id: str
    question: str
    image_id: str
    question_type: str = ""
    split: str = ""
    category: str = ""
    gold: GoldRecord = field(default_factory=GoldRecord)
    failed: str | None = None
    candidates: Sequence[CandidateRecord] = ()
    rankings: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    ranks: Mapping[str, int | None] = field(default_factory=dict)
    evidence: Evidence | None = None
    section_correct: bool | None = None
    section_ranks: Mapping[str, int | None] = field(default_factory=dict)
    answer: str | None = None
    confidence: float | None = None
    span: tuple[int, int] | None = None
    unanswered: bool = False
    thoughts: str = ""
    answer_scores: Scores = field(default_factory=dict)
    answer_correct: bool | None = None
    timings_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def asks(self) -> tuple[str, str]:
        """Image and text, which identify the same query in different files."""
        return self.image_id, self.question


_FORM = TypeAdapter(QueryRecord)
_ALWAYS = ("id", "question", "image_id", "gold", "candidates", "rankings", "evidence", "span")
"""Fields of every line; if their defaults stood in, a file of something else would be read as empty records."""


def to_json(record: QueryRecord) -> dict[str, Any]:
    """Returns a record in the form of `queries.jsonl`; a section becomes a list `[index, sim_m, sim_t, score]`."""
    row: dict[str, Any] = _FORM.dump_python(record, mode="json")
    return {name: row[name] for name in (*QueryRecord.__annotations__, *row)}  # inherited fields last


def from_json(row: Mapping[str, Any]) -> QueryRecord:
    """Returns the record in a line of `queries.jsonl`, including lines written by older versions.

    Raises:
        ValueError: A field is missing or has the wrong type.
    """
    if missing := [name for name in _ALWAYS if name not in row]:
        raise ValueError(f"{', '.join(missing)}: missing")
    try:
        return _FORM.validate_python(row)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error


def read_records(path: Path | str) -> Iterator[QueryRecord]:
    """Yields the records of a run, one at a time.

    Raises:
        ValueError: A line is not a record; the message names the file and line.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield from_json(json.loads(line))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}: line {number}: not a record of omgm evaluate ({error})") from error


def is_near(answer: str | None, references: Sequence[str]) -> bool:
    """Returns whether an answer has the words of a reference and more, such as a unit, or the other way around.

    Example:
        >>> is_near("332.9 meters", ["332.9"]), is_near("Berg", ["Ann Berg"]), is_near("33", ["332.9"])
        (True, True, False)
    """
    if not answer:
        return False
    return own_contains(answer, references) or any(own_contains(reference, [answer]) for reference in references)


def outcome_of(record: QueryRecord, entities: int = CUTOFFS[-1]) -> Outcome:
    """Returns the part of a record that the metrics need; `entities` is how many the index has."""
    gold = record.gold
    found = len(record.rankings.get("step1", ()))
    return Outcome(
        id=record.id,
        groups={"question_type": record.question_type, "split": record.split, "category": record.category},
        ranks=record.ranks,
        section_correct=record.section_correct,
        answer_correct=record.answer_correct,
        unanswered=record.unanswered,
        failed=record.failed,
        gold_missing=gold.missing,
        section_missing=not gold.missing and gold.section is not None and gold.section_title is None,
        shallow=record.failed is None and 0 < found < min(CUTOFFS[-1], entities),
        section_ranks=record.section_ranks,
        answer_scores=record.answer_scores,
        confidence=record.confidence,
        entity_known=bool(gold.entities),
        ending=record.ending,
        without_reference=record.answer_correct is not None and not gold.answers,
        nearly=record.answer_correct is False and is_near(record.answer, gold.answers),
    )
