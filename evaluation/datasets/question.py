"""A question of any data set, with its image, answers and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Style = Literal["evqa", "infoseek", "infoseek-csv", "okvqa", "dynvqa", "plain", "mmsearch", "mmsearch-plus"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a data set.

    Attributes:
        id: Its id in run files.
        question: Its text.
        image_id: Id of its image; see `find_query_image`.
        answers: Alternatives, any of which is right. The items of a list are separated by `&&`. For OK-VQA, the answers
            of ten annotators, with repetitions.
        entity_ids: Ids of the entities it is about; empty if the data set names none.
        section_index: Published number of the evidence section in its article (`Section.index`), if known.
        question_type: E-VQA's or InfoSeek's type, which decides how answers are judged.
        data_split: Its split.
        category: The source of its image (`dataset_name` in E-VQA) or its topic; may be empty.
        numeric_range: For a numerical question, the lowest and the highest right answer.
        style: The data set whose rules judge the answer.
        other_image_ids: Further images of the same question, which are not used.
        reference: The answer that a generator is trained to give, if not the first of `answers`.
        golden_query: Dyn-VQA's question that names the entity, answerable with a single search.
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
    # Not part of what identifies a run, so that runs made before this field existed still resume.
    reference: str = field(default="", repr=False, compare=False)
    golden_query: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A valid row that is not used as a question: its place in the file, and the reason."""

    where: str
    reason: str


Item = Question | SkippedRow | ValueError
"""The result of reading one row; a `ValueError` names the file, line and field."""

Loader = Callable[[Path], Iterator[Item]]
"""Yields one item per row. Raises `ValueError` if the rest of the file cannot be read."""
