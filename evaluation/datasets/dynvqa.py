"""Dyn-VQA: JSON lines in English and Chinese, every published version of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluation.datasets.question import Item, LeftOut, Question
from evaluation.datasets.rows import Row, json_lines, name, questions, text, texts


def read_dynvqa(path: Path) -> Iterator[Item]:
    """Yields the questions of a Dyn-VQA file.

    What differs between its versions is taken as it comes: answers may be texts and numbers, one level of lists inside
    the list (202410), or null (202408) or empty (202410), and then there is no question to score. A picture is named by
    its URL or, in a copy, by a path; the question that names the entity (`golden_query`, once `gloden_query`) is not
    used.

    Raises:
        ValueError: The file cannot be read.
    """
    return questions(json_lines(path), _question, "question_id")


def _question(row: Row, where: str) -> Question | LeftOut:
    answer = _flat(row.get("answer"))
    unanswered = "answer" in row and answer in (None, "", [], [""])
    question = Question(
        id=name(row, "question_id", where),
        question=text(row, "question", where),
        image_id=text(row, "image_url" if "image_url" in row else "image", where),
        answers=() if unanswered else texts(answer, "answer", where),
        entity_ids=(),
        style="dynvqa",
    )
    return LeftOut(where, "no answer in this version") if unanswered else question


def _flat(answer: Any) -> Any:
    if not isinstance(answer, list):
        return answer
    return [one for part in answer for one in (part if isinstance(part, list) else [part])]
