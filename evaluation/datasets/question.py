"""A question of any data set, with its image, answers and evidence, and a task of agents made from one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


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
    style: str = "evqa"
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

ImageFile = bytes | Path  # an image as the content of a file, or its path


@dataclass(frozen=True, slots=True)
class RowImages:
    """The images of a row that were found, and the names of those that were not."""

    found: tuple[ImageFile, ...] = ()
    missing: tuple[str, ...] = ()


NO_IMAGES = RowImages()


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A question for an agent, with its images.

    Attributes:
        question: The question with its answers.
        images: Its images, the main one first; none for a text-only question, or if images were not requested.
        requery: The search query that a human wrote for it; empty if unknown.
        groups: The group of the question in each breakdown.
        image_search: The published screenshot of the results of a search for its image.
    """

    question: Question
    images: RowImages = NO_IMAGES
    requery: str = ""
    groups: Mapping[str, str] | None = None
    image_search: RowImages = NO_IMAGES


TaskReader = Callable[[bool], Iterator[SearchTask]]
"""Yields all tasks, with their images if the argument is true. Raises `ValueError`."""
