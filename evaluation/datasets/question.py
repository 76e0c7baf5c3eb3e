"""What every data set becomes: questions with their pictures, answers and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Style = Literal["evqa", "infoseek", "okvqa", "dynvqa", "plain"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a data set.

    Attributes:
        id: Names it in run files.
        question: Its words.
        image_id: Names its picture, see `find_query_image`.
        answers: Alternatives, any of which is right; the `&&` between the items of one list stays inside. For OK-VQA
            what ten people said, equal answers repeated.
        entity_ids: The entities it is about, as an index names them; empty where the data set names none.
        section_index: Where the evidence stands in the article as published (`Section.index`), `None` when not known.
        question_type: E-VQA's or InfoSeek's type; answers are judged by it.
        data_split: The split it came from.
        category: The data set its picture is from (`dataset_name` in E-VQA) or its topic, may be empty.
        numeric_range: For a numerical question: the lowest and the highest answer that are right.
        style: Whose rules judge an answer.
        other_image_ids: Further pictures that the question was asked of, which no step looks at.
    """

    id: str
    question: str
    image_id: str
    answers: tuple[str, ...]
    entity_ids: tuple[str, ...]
    section_index: int | None = None
    question_type: str = ""
    data_split: str = ""
    category: str = ""
    numeric_range: tuple[float, float] | None = None
    style: Style = "evqa"
    other_image_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is as it should be and yet no question to ask: where it stands, and why."""

    where: str
    reason: str


Item = Question | LeftOut | ValueError
"""What becomes of one row; a `ValueError` names its file, line and field."""

Loader = Callable[[Path], Iterator[Item]]
"""Yields an item a row. Raises `ValueError` where the file as a whole cannot be read on."""
