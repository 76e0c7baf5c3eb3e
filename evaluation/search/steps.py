"""MMSearch's single-step tasks: choose one of eight given websites, and answer from one given website."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.datasets.question import NO_IMAGES, Question, RowImages
from evaluation.datasets.rows import Row, name, text
from evaluation.search.mmsearch import mmsearch_answers
from evaluation.search.rows import images_of, rows_of

WEBSITES = 8  # k of the paper


@dataclass(frozen=True, slots=True)
class Website:
    """A website as given by the data set: title, snippet, text and a screenshot."""

    title: str
    snippet: str
    text: str = ""
    screenshot: RowImages = NO_IMAGES


@dataclass(frozen=True, slots=True)
class StepTask:
    """A question with the websites that a model sees.

    Attributes:
        question: The question; its answers are empty in the rerank task.
        websites: Eight to choose from, or the one to answer from.
        images: The question's image, if it has one.
        image_search: A screenshot of the results of a search for that image.
        valid: Positions (from 0) of the websites that are likely to hold the answer.
        unsure: Positions of those whose relevance is hard to tell.
    """

    question: Question
    websites: tuple[Website, ...]
    images: RowImages = NO_IMAGES
    image_search: RowImages = NO_IMAGES
    valid: tuple[int, ...] = ()
    unsure: tuple[int, ...] = ()


def read_rerank(path: Path, images: bool = True) -> Iterator[StepTask]:
    """Yields the tasks of MMSearch's rerank file.

    Raises:
        ValueError: The file cannot be read, or a row is invalid.
    """
    for where, row in rows_of(path, images=images):
        websites = []
        for at in range(WEBSITES):
            info = row.get(f"website{at}_info")
            if not isinstance(info, dict):
                raise ValueError(f"{where}: field website{at}_info must be an object, got {info!r}"[:300])
            # The data set's own snippets appear under either name.
            snippet = info.get("snippet") or info.get("text") or ""
            screenshot = images_of(path.parent, row.get(f"website{at}_head_screenshot")) if images else NO_IMAGES
            websites.append(Website(str(info.get("title") or ""), str(snippet), "", screenshot))
        valid, unsure = (_positions(row, field, where) for field in ("valid", "not_sure"))
        yield StepTask(_question(row, (), where), tuple(websites), *_images(row, path, images), valid, unsure)


def read_summarization(path: Path, images: bool = True) -> Iterator[StepTask]:
    """Yields the tasks of MMSearch's summarization file.

    Raises:
        ValueError: The file cannot be read, or a row is invalid.
    """
    for where, row in rows_of(path, images=images):
        title, snippet, content = (
            str(row.get(f"website_{field}") or "") for field in ("title", "snippet", "retrieved_content")
        )
        screenshot = images_of(path.parent, row.get("website_fullpage_screenshot")) if images else NO_IMAGES
        question = _question(row, mmsearch_answers(row, where), where)
        yield StepTask(question, (Website(title, snippet, content, screenshot),), *_images(row, path, images))


def _question(row: Row, answers: tuple[str, ...], where: str) -> Question:
    return Question(
        id=name(row, "sample_id", where),
        question=text(row, "query", where),
        image_id="",
        answers=answers,
        entity_ids=(),
        style="mmsearch",
    )


def _images(row: Row, path: Path, images: bool) -> tuple[RowImages, RowImages]:
    if not images:
        return NO_IMAGES, NO_IMAGES
    return images_of(path.parent, row.get("query_image")), images_of(path.parent, row.get("image_search_result"))


def _positions(row: Row, field: str, where: str) -> tuple[int, ...]:
    values: Any = row.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, int) and 0 <= value < WEBSITES for value in values):
        raise ValueError(f"{where}: field {field} must be a list of positions from 0 to {WEBSITES - 1}, got {values!r}")
    return tuple(values)
