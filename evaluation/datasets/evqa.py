"""Encyclopedic VQA: a CSV file, read by its header, or the same rows as JSON; exact match, and BEM's references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from evaluation.answers import evqa_match
from evaluation.datasets.dataset import Dataset, Scores
from evaluation.datasets.question import Item, Question, SkippedRow
from evaluation.datasets.rows import alternatives, image_ids, questions, table_rows, text

EVQA_TYPES = ("templated", "automatic", "multi_answer", "2_hop")
EVQA_COLUMNS = ("question", "answer", "dataset_image_ids", "question_type", "wikipedia_url")


def read_evqa(path: Path, *, two_hop: bool = False) -> Iterator[Item]:
    """Yields the questions of an E-VQA file; ids count the kept rows, as in the paper's code.

    Args:
        path: A file of CSV or JSON with at least the columns `EVQA_COLUMNS`.
        two_hop: Whether to keep questions of type `2_hop`; their evidence spans two articles, so they get no section.

    Raises:
        ValueError: A column is missing, or the file is neither CSV nor JSON.
    """
    kept = 0

    def make(row: Mapping[str, str], where: str) -> Question | SkippedRow:
        nonlocal kept
        question = _question(row, f"E-VQA_{kept}", where)
        if question.question_type == "2_hop" and not two_hop:
            return SkippedRow(where, "two-hop question")
        kept += 1
        return question

    return questions(table_rows(path, EVQA_COLUMNS), make)


def _question(row: Mapping[str, str], question_id: str, where: str) -> Question:
    question_type = text(row, "question_type", where).lower()
    if question_type not in EVQA_TYPES:
        raise ValueError(f"{where}: field question_type: {question_type!r} is not one of {', '.join(EVQA_TYPES)}")
    section = "" if question_type == "2_hop" else row.get("evidence_section_id", "").strip()
    section = section.removesuffix(".0")  # as pandas writes integers of a column with gaps
    if section and not section.isdecimal():
        raise ValueError(f"{where}: field evidence_section_id must be an integer, at least 0, got {section!r}")
    image_id, *others = image_ids(row, "dataset_image_ids", where)
    return Question(
        id=question_id,
        question=text(row, "question", where),
        image_id=image_id,
        answers=alternatives(row, "answer", where),
        entity_ids=alternatives(row, "wikipedia_url", where),
        section_index=int(section) if section else None,
        question_type=question_type,
        data_split=row.get("encyclopedic_vqa_split", "").strip(),
        category=row.get("dataset_name", "").strip(),
        style="evqa",
        other_image_ids=tuple(others),
    )


def _judge(question: Question, answer: str) -> Scores:
    multiple = question.question_type == "multi_answer"
    return {"evqa_exact_match": float(evqa_match(answer, question.answers, multi_answer=multiple))}


def _references(question: Question) -> tuple[str, ...]:
    multiple = question.question_type == "multi_answer"
    return tuple(answer.replace("&&", ",") if multiple else answer for answer in question.answers)


EVQA = Dataset(
    "evqa",
    "evqa_exact_match",
    _judge,
    read_evqa,
    published=True,
    stand_ins={
        "evqa_exact_match": (
            "exact-match",
            "Measured without BEM: this is exact match alone, a lower bound of E-VQA's own metric.",
        )
    },
    learned=_references,
)
EVQA_ALL = replace(EVQA, name="evqa-all", read=partial(read_evqa, two_hop=True))
"""E-VQA with its two-hop questions."""
