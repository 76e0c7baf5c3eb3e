"""Loads question files: every data set becomes a list of `Question`s. docs/data-formats.md says where to get them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evaluation.datasets.dataset import datasets
from evaluation.datasets.images import find_query_image, forget_listings, locate
from evaluation.datasets.question import Item, Question, SkippedRow
from indexes.labeled_values import NO_NAMES, Names

__all__ = ["Item", "Question", "SkippedRow", "find_query_image", "forget_listings", "load", "locate", "read"]


def load(dataset: str, path: Path | str, names: Names = NO_NAMES) -> list[Question]:
    """Loads the questions of a file in the format of a data set; arguments are as in `read`.

    Raises:
        ValueError: The data set is unknown, or a row is invalid; the message names the file, line and field.
    """
    questions = []
    for item in read(dataset, path, names):
        if isinstance(item, ValueError):
            raise item
        if isinstance(item, Question):
            questions.append(item)
    return questions


def read(dataset: str, path: Path | str, names: Names = NO_NAMES) -> Iterator[Item]:
    """Reads a file row by row: yields the question of each row, the reason to skip the row, or its error.

    Args:
        dataset: The name of the data set.
        path: The file.
        names: What fields are called in the file, where they do not have one of the usual names, if the data set has no
            fixed ones.

    Raises:
        ValueError: The data set is unknown, or the rest of the file cannot be read.
    """
    known = {name: value for name, value in datasets().items() if value.read is not None}
    if dataset not in known:
        raise ValueError(f"unknown data set {dataset!r}; must be one of {', '.join(known)}")
    reader, named = known[dataset].read, known[dataset].read_named
    if names and named is None:
        free = ", ".join(name for name, value in known.items() if value.read_named is not None)
        raise ValueError(f"--query-map: is for --dataset {free}; the fields of {dataset} have fixed names")
    assert reader is not None
    return named(Path(path), names) if names and named is not None else reader(Path(path))
