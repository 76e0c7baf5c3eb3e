"""Dyn-VQA: JSON lines in English and Chinese, in every published version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.dataset import Dataset, Deviation, Scores
from evaluation.datasets.question import Item, Question, SkippedRow
from evaluation.datasets.rows import Row, json_lines, name, questions, text, texts
from evaluation.overlap import can_segment, f1_recall, has_sentences, language_of, token_f1


def read_dynvqa(path: Path) -> Iterator[Item]:
    """Yields the questions of a Dyn-VQA file.

    All versions are accepted: answers may be texts or numbers and may be nested one level (202410); rows with a null
    (202408) or empty (202410) answer are skipped. The image is given by its URL or, in a local copy, by a path. The
    question that names the entity is `golden_query`, spelled `gloden_query` in all versions but one.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(json_lines(path), _question, "question_id")


def _question(row: Row, where: str) -> Question | SkippedRow:
    answer = _flat(row.get("answer"))
    unanswered = "answer" in row and answer in (None, "", [], [""])
    question = Question(
        id=name(row, "question_id", where),
        question=text(row, "question", where),
        image_id=text(row, "image_url" if "image_url" in row else "image", where),
        answers=() if unanswered else texts(answer, "answer", where),
        entity_ids=(),
        style="dynvqa",
        golden_query=_golden(row),
    )
    return SkippedRow(where, "no answer in this version") if unanswered else question


def _golden(row: Row) -> str:
    """Returns the query that names the entity; one row of 202406 has NaN instead."""
    value = row.get("golden_query", row.get("gloden_query"))
    return value.strip() if isinstance(value, str) else ""


def _flat(answer: Any) -> Any:
    if not isinstance(answer, list):
        return answer
    return [value for part in answer for value in (part if isinstance(part, list) else [part])]


def _judge(question: Question, answer: str) -> Scores:
    scores = {"token_f1": token_f1(answer, question.answers)}
    if not can_segment():
        return scores
    return {"f1_recall": f1_recall(answer, question.answers, language_of(question.question))} | scores


def _lacking() -> Deviation | None:
    sentence = (
        "A rule of ours ended English sentences, since NLTK's model is not here (python -m nltk.downloader punkt_tab)."
    )
    return None if has_sentences() else ("own-sentences", sentence)


DYNVQA = Dataset(
    "dynvqa",
    "f1_recall",
    _judge,
    read_dynvqa,
    published=True,
    stand_ins={
        "token_f1": (
            "token-f1",
            "F1-Recall's tokenizers are not installed (pip install 'omgm[dynvqa]'); this is token F1 alone.",
        )
    },
    lacking=_lacking,
)
