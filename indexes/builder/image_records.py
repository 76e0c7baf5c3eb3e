"""The images of each entity in an unfinished build: `images.jsonl`, one line per entity, read on demand."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexes.article_images import ImageProblem, MainImage, is_labeled
from indexes.lines import Lines
from retriever.types import IntArray

IMAGES = "images.jsonl"


class ImageRecord(NamedTuple):
    """A line of the file.

    Attributes:
        path: Name of the main image in the image source, or `None`.
        problem: What is wrong with the main image, if anything.
        reason: Details of the problem.
        keys: Names of further images that are keys.
        sections: The image of each section, see `FurtherImages`.
        problems: Further images that cannot be read, each with the reason.
        tokens: Number of rows of tokens, of sections and of images.
        image_tokens: Number of the article's images that have tokens of their own. Builds started by an older version
            have fewer of them, or neither this number nor such tokens.
    """

    path: str | None
    problem: ImageProblem | None
    reason: str | None
    keys: Sequence[str]
    sections: Sequence[str | None]
    problems: Sequence[str]
    tokens: int
    image_tokens: int = 0

    @property
    def main(self) -> MainImage:
        """The main image."""
        return MainImage(self.path, self.problem, self.reason)


def read_records(path: Path) -> Iterator[ImageRecord]:
    """Yields the records of a file that may still be growing."""
    with path.open("rb") as file:
        for line in file:
            yield ImageRecord(*json.loads(line))


class ImageRecords:
    """The records of all entities by row.

    Args:
        folder: The unfinished build, with `images.jsonl`.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / IMAGES)

    def __len__(self) -> int:
        """Returns the number of entities."""
        return len(self._lines)

    def __getitem__(self, row: int) -> ImageRecord:
        """Returns the record of the entity at `row`."""
        return ImageRecord(*self._lines.read(row))

    def __iter__(self) -> Iterator[ImageRecord]:
        """Yields the records in order."""
        return (self[row] for row in range(len(self)))

    def readable_rows(self) -> IntArray:
        """Returns the rows of entities with a readable main image, int64."""
        return np.flatnonzero(np.fromiter((record.main.readable for record in self), bool, len(self))).astype(np.int64)

    def key_owners(self) -> IntArray:
        """Returns the entity's row for each further image that is a key, int64, ascending."""
        return self._repeated(len(record.keys) for record in self)

    def image_owners(self) -> IntArray:
        """Returns the entity's row for each article image that has tokens of its own, int64, ascending."""
        return self._repeated(record.image_tokens for record in self)

    def labeled_keys(self) -> IntArray:
        """Returns the numbers of the keys that are labeled images, including main images, int64, ascending."""
        main, further, number = array("q"), array("q"), len(self)
        for row, record in enumerate(self):
            if record.path is not None and record.problem is None and is_labeled(record.path):
                main.append(row)
            further.extend(n for n, name in enumerate(record.keys, number) if is_labeled(name))
            number += len(record.keys)
        return np.array(main + further, np.int64)

    def unreadable(self) -> Iterator[str]:
        """Yields the further images that could not be read, each with the reason."""
        for record in self:
            yield from record.problems

    def _repeated(self, counts: Iterator[int]) -> IntArray:
        """Returns each row as often as its count says."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.fromiter(counts, np.int64, len(self)))
