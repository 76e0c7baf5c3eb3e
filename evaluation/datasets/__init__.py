"""Question files of every data set as one list of questions, each row checked; docs/datasets.md says where they are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from evaluation.datasets.dynvqa import read_dynvqa
from evaluation.datasets.evqa import EVQA_COLUMNS, EVQA_TYPES, read_evqa
from evaluation.datasets.images import EXTENSIONS, find_query_image, locate
from evaluation.datasets.infoseek import INFOSEEK_TYPES, read_infoseek
from evaluation.datasets.okvqa import read_okvqa
from evaluation.datasets.plain import read_plain
from evaluation.datasets.question import Item, LeftOut, Loader, Question, Style

__all__ = [
    "EVQA_COLUMNS",
    "EVQA_TYPES",
    "EXTENSIONS",
    "INFOSEEK_TYPES",
    "LOADERS",
    "Item",
    "LeftOut",
    "Question",
    "Style",
    "find_query_image",
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
"""By the name of a data set, what reads its question file."""


def load(dataset: str, path: Path) -> list[Question]:
    """Returns the questions of a file in the format of `dataset`, a key of `LOADERS`.

    Raises:
        ValueError: The data set is unknown, or a row is not as it should be; the message names file, line and field.
    """
    questions = []
    for item in read(dataset, path):
        if isinstance(item, ValueError):
            raise item
        if isinstance(item, Question):
            questions.append(item)
    return questions


def read(dataset: str, path: Path) -> Iterator[Item]:
    """Yields what becomes of each row of a file, few of them in memory: a question, a row left out, or its error.

    Raises:
        ValueError: The data set is unknown, or the file as a whole cannot be read on.
    """
    if dataset not in LOADERS:
        raise ValueError(f"unknown data set {dataset!r}; known are {', '.join(LOADERS)}")
    return LOADERS[dataset](path)
