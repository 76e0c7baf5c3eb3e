"""The tasks that search agents are evaluated on: questions of any data set with their images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from evaluation.datasets import find_query_image, load
from evaluation.datasets.dataset import dataset_named
from evaluation.datasets.question import NO_IMAGES, RowImages, SearchTask, TaskReader
from evaluation.datasets.rows import json_lines
from indexes.labeled_values import NO_NAMES, Names


def read_tasks(
    dataset: str, path: Path, images: Path | None, *, canary: str = "", names: Names = NO_NAMES
) -> TaskReader:
    """Returns the reader of a data set.

    Args:
        dataset: The name of the data set.
        path: The question file; for MMSearch the folder of its three files, or the first of them.
        images: The folder of images that are not embedded.
        canary: The text that decrypts MMSearch-Plus.
        names: See `evaluation.datasets.read`.

    Raises:
        ValueError: The data set needs a folder of images.
    """
    tasks = dataset_named(dataset).tasks
    if tasks is not None and names:
        raise ValueError(f"--query-map: is for --dataset plain; the fields of {dataset} have fixed names")
    if tasks is not None:
        return tasks(path, images, canary)
    if images is None:
        raise ValueError(f"--query-images is needed: {dataset} names its images")
    return partial(_questions, dataset, path, images, names)


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
