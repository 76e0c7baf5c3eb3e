"""Which images of an article are used besides its main image: more keys for step 1, sections' own images for step 2."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexes.lines import Lines
from retriever.types import IntArray

LABELED = "labeled:"
"""How the URLs of labeled images begin (`indexes.labeled_images`)."""

GROUNDS = "grounds:"
"""How the name of a key begins that is the main image on several grounds; the image's own name follows."""

IMAGES = "images.jsonl"
"""What `indexes.image_stage` writes to an unfinished build about the images of each entity."""


class ImageUse(NamedTuple):
    """Which images of an entity are used.

    Attributes:
        keys: Image keys of an entity, at most, labeled ones apart; 1 is the main image alone.
        sections: Whether a section's tokens are made with its own image if it has one, else with the main image.
        labeled: Whether labeled images are used, all of them: as keys and, with a fusion encoder, by their tokens.
    """

    keys: int = 1
    sections: bool = False
    labeled: bool = False


MAIN_ONLY = ImageUse()


class FurtherImages(NamedTuple):
    """The images of an entity that are used besides its main image, by their names in the image source.

    Attributes:
        keys: Those that are keys.
        sections: For each section its own image, `None` for the main image; empty if no section has one.
    """

    keys: tuple[str, ...] = ()
    sections: tuple[str | None, ...] = ()

    def of_sections(self, main: str, count: int) -> dict[str, list[int]]:
        """Returns the image of each of `count` sections: the positions of the sections by the names of the images."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.sections or [None] * count):
            found.setdefault(name or main, []).append(position)
        return found


def is_labeled(name: str) -> bool:
    """Returns whether a key is a labeled image, by its name."""
    return name.removeprefix(GROUNDS).startswith(LABELED)


def keys_with_tokens(main: str | None, further: Sequence[str]) -> list[str]:
    """Returns the names of an entity's keys that have tokens of their own, labeled images last.

    These are its labeled images and, if its article has more images than the main one that are keys, all of these. With
    the main image alone, the tokens of its sections say as much.

    Args:
        main: The name of its main image, `None` if that is missing or unreadable.
        further: The names of its further keys.
    """
    if main is None:
        return []
    several = any(not (is_labeled(name) or name.startswith(GROUNDS)) for name in further)
    return [name for name in (main, *further) if is_labeled(name) or (several and not name.startswith(GROUNDS))]


class FurtherTable:
    """The further images of all entities by row, read from disk on demand.

    Args:
        folder: The unfinished build, with `images.jsonl`.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / IMAGES)

    def owners(self) -> IntArray:
        """Returns the row of the entity of each further image that is a key, ascending, int64."""
        count = len(self._lines)
        keys = np.fromiter((len(self._lines.read(row)[3]) for row in range(count)), np.int64, count)
        return np.repeat(np.arange(count, dtype=np.int64), keys)

    def image_owners(self) -> IntArray:
        """Returns the row of the entity of each image of an article that has tokens of its own, ascending, int64."""
        count = len(self._lines)
        # A build that an older version began has lines without this number, and no such tokens.
        images = np.fromiter((sum(self._lines.read(row)[7:]) for row in range(count)), np.int64, count)
        return np.repeat(np.arange(count, dtype=np.int64), images)

    def labeled(self) -> IntArray:
        """Returns the numbers of the keys that are labeled images, main images among them, ascending, int64."""
        main, further, number = array("q"), array("q"), len(self._lines)
        for row in range(len(self._lines)):
            path, problem, _, names, *_ = self._lines.read(row)
            if problem is None and path is not None and is_labeled(path):
                main.append(row)
            further.extend(n for n, name in enumerate(names, number) if is_labeled(name))
            number += len(names)
        return np.array(main + further, np.int64)

    def unreadable(self) -> Iterator[str]:
        """Yields the images that could not be read, each with the reason."""
        for row in range(len(self._lines)):
            yield from self._lines.read(row)[5]
