"""The tasks that search agents are evaluated on: questions of any data set with their images."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

from evaluation.datasets import find_query_image, load
from evaluation.datasets.plain_rows import NO_NAMES
from evaluation.datasets.question import Question
from evaluation.datasets.rows import Row, json_lines, name, optional_text, text, texts
from evaluation.search.rows import NO_IMAGES, RowImages, images_of, rows_of
from indexes.knowledge.understanding.fields import Names

PLUS_IMAGES = ("img_1", "img_2", "img_3", "img_4", "img_5")


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


def read_tasks(
    dataset: str, path: Path, images: Path | None, *, canary: str = "", names: Names = NO_NAMES
) -> TaskReader:
    """Returns the reader of a data set.

    Args:
        dataset: `mmsearch`, `mmsearch-plus`, or a key of `evaluation.datasets.LOADERS`.
        path: The question file; for MMSearch the folder of its three files, or the first of them.
        images: The folder of images that are not embedded.
        canary: The text that decrypts MMSearch-Plus.
        names: See `evaluation.datasets.read`.

    Raises:
        ValueError: The data set needs a folder of images.
    """
    if names and dataset in ("mmsearch", "mmsearch-plus"):
        raise ValueError(f"--query-map: is for --dataset plain; the fields of {dataset} have fixed names")
    if dataset == "mmsearch":
        file = subset(path, "end2end") if path.is_dir() else path
        if file is None:
            raise ValueError(f"{path}: holds neither end2end.parquet nor end2end.jsonl")
        return partial(_mmsearch, file, images)
    if dataset == "mmsearch-plus":
        return partial(_mmsearch_plus, path, images, canary)
    if images is None:
        raise ValueError(f"--query-images is needed: {dataset} names its images")
    return partial(_questions, dataset, path, images, names)


def subset(path: Path, name: str) -> Path | None:
    """Returns one of MMSearch's files (`end2end`, `rerank`, `summarization`), given their folder or the first one."""
    folder = path if path.is_dir() else path.parent
    files = [folder / f"{name}{ending}" for ending in (".parquet", ".jsonl")]
    return next((file for file in files if file.is_file()), None)


def _mmsearch(path: Path, folder: Path | None, images: bool) -> Iterator[SearchTask]:
    """Yields the questions of MMSearch's end-to-end task; of 300, 129 have no image."""
    for where, row in rows_of(path, images=images):
        question = Question(
            id=name(row, "sample_id", where),
            question=text(row, "query", where),
            image_id="",
            answers=mmsearch_answers(row, where),
            entity_ids=(),
            style="mmsearch",
        )
        groups = {field: optional_text(row, field, where) for field in ("area", "subfield")}
        files = folder or path.parent
        found = images_of(files, row.get("query_image")) if images else NO_IMAGES
        seen = images_of(files, row.get("image_search_result")) if images else NO_IMAGES
        yield SearchTask(question, found, optional_text(row, "gt_requery", where), groups, seen)


def mmsearch_answers(row: Row, where: str) -> tuple[str, ...]:
    """Returns the accepted answers of a row of MMSearch.

    Raises:
        ValueError: It has none.
    """
    others = row.get("alternative_gt_answers") or []
    return texts([row.get("gt_answer"), *others], "gt_answer", where)


def _mmsearch_plus(path: Path, folder: Path | None, canary: str, images: bool) -> Iterator[SearchTask]:
    """Yields the questions of MMSearch-Plus; ids are row numbers, since the data set has none."""
    for number, (where, row) in enumerate(rows_of(path, images=images), start=1):
        plain = partial(_decrypted, canary=canary, where=where)
        question = Question(
            id=str(number),
            question=plain(text(row, "question", where)),
            image_id="",
            answers=tuple(plain(answer) for answer in texts(row.get("answer"), "answer", where)),
            entity_ids=(),
            style="mmsearch-plus",
        )
        groups = {field: optional_text(row, field, where) for field in ("category", "difficulty", "subtask")}
        fields = [row.get(field) for field in PLUS_IMAGES]
        yield SearchTask(question, images_of(folder or path.parent, *fields) if images else NO_IMAGES, "", groups)


def _decrypted(value: str, canary: str, where: str) -> str:
    """Decrypts a text of MMSearch-Plus: Base64 of the text XORed with the repeated SHA-256 of the canary."""
    if not canary:
        return value
    try:
        data = base64.b64decode(value, validate=True)
        key = hashlib.sha256(canary.encode()).digest()
        return bytes(byte ^ mask for byte, mask in zip(data, cycle(key), strict=False)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: cannot decrypt this text with --canary; is the file encrypted?") from error


def _questions(dataset: str, path: Path, folder: Path, names: Names, images: bool) -> Iterator[SearchTask]:
    for question in load(dataset, path, names):
        there = NO_IMAGES
        if images:
            found = find_query_image(folder, question.image_id)
            there = RowImages((), (question.image_id,)) if found is None else RowImages((found,))
        groups = {"question_type": question.question_type, "split": question.data_split, "category": question.category}
        yield SearchTask(question, there, "", groups)


def read_regions(path: Path) -> dict[str, list[list[float]]]:
    """Returns the boxes of each question's image: x1, y1, x2, y2 in its pixels.

    Raises:
        ValueError: A line has not the fields `id` and `boxes`.
    """
    regions: dict[str, list[list[float]]] = {}
    for where, row in json_lines(path):
        if isinstance(row, ValueError):
            raise row
        boxes = row.get("boxes")
        if not isinstance(row.get("id"), str | int) or not isinstance(boxes, list):
            raise ValueError(f'{where}: --regions needs lines such as {{"id": "q1", "boxes": [[x1, y1, x2, y2]]}}')
        regions[str(row["id"])] = boxes
    return regions
