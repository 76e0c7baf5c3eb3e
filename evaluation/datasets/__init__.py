"""Loads question files: every data set becomes a list of `Question`s. docs/data-formats.md says where to get them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from evaluation.datasets.dynvqa import read_dynvqa
from evaluation.datasets.evqa import EVQA_COLUMNS, EVQA_TYPES, read_evqa
from evaluation.datasets.images import EXTENSIONS, find_query_image, forget_listings, locate
from evaluation.datasets.infoseek import INFOSEEK_TYPES, read_infoseek
from evaluation.datasets.okvqa import read_okvqa
from evaluation.datasets.plain import read_plain
from evaluation.datasets.plain_rows import NO_NAMES
from evaluation.datasets.question import Item, Loader, Question, SkippedRow, Style
from indexes.knowledge.understanding.fields import Names

__all__ = [
    "EVQA_COLUMNS",
    "EVQA_TYPES",
    "EXTENSIONS",
    "INFOSEEK_TYPES",
    "LOADERS",
    "Item",
    "Question",
    "SkippedRow",
    "Style",
    "find_query_image",
    "forget_listings",
    "load",
    "locate",
    "read",
]

LOADERS: dict[str, Loader] = {
    "evqa": read_evqa,
    "evqa-all": partial(read_evqa, two_hop=True),
    "infoseek": read_infoseek,
    "okvqa": read_okvqa,
    "dynvqa": read_dynvqa,
    "plain": read_plain,
}
"""The loader of each data set's question file."""


def load(dataset: str, path: Path | str, names: Names = NO_NAMES) -> list[Question]:
    """Loads the questions of a file in the format of `dataset`, a key of `LOADERS`; `names` is as in `read`.

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
        dataset: The format of the file, a key of `LOADERS`.
        path: The file.
        names: Of `plain`, what fields are called in the file, where they do not have one of the usual names.

    Raises:
        ValueError: The data set is unknown, or the rest of the file cannot be read.
    """
    if names and dataset != "plain":
        raise ValueError(f"--query-map: is for --dataset plain; the fields of {dataset} have fixed names")
    if names:
        return read_plain(Path(path), names)
    if dataset not in LOADERS:
        raise ValueError(f"unknown data set {dataset!r}; must be one of {', '.join(LOADERS)}")
    return LOADERS[dataset](Path(path))
