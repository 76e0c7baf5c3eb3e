"""Images of an article that are used besides its main image: more keys for step 1, images of sections for step 2."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexes.lines import Lines
from retriever.types import IntArray

LABELED = "labeled:"
"""Prefix of the URLs of labeled images (`indexes.labeled_images`)."""

GROUNDS = "grounds:"
"""Prefix of the name of a key that is the main image on several backgrounds; the image's own name follows."""

IMAGES = "images.jsonl"
"""The file in an unfinished build in which `indexes.image_stage` records the images of each entity."""


class ImageUse(NamedTuple):
    """Which images of an entity are used.

    Attributes:
        keys: Most image keys per entity, not counting labeled images; 1 means the main image only.
        sections: Whether a section's tokens use its own image, if it has one, instead of the main image.
        labeled: Whether all labeled images are used: as keys and, with a fusion encoder, by their tokens.
    """

    keys: int = 1
    sections: bool = False
    labeled: bool = False


MAIN_ONLY = ImageUse()


class FurtherImages(NamedTuple):
    """The images of an entity that are used besides its main image, by their names in the image source.

    Attributes:
        keys: The images that are keys.
        sections: The image of each section, `None` for the main image; empty if no section has its own image.
    """

    keys: tuple[str, ...] = ()
    sections: tuple[str | None, ...] = ()

    def of_sections(self, main: str, count: int) -> dict[str, list[int]]:
        """Returns the images of `count` sections, as a mapping of image names to the positions of their sections."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.sections or [None] * count):
            found.setdefault(name or main, []).append(position)
        return found


def is_labeled(name: str) -> bool:
    """Returns whether the key with this name is a labeled image."""
    return name.removeprefix(GROUNDS).startswith(LABELED)


def keys_with_tokens(main: str | None, further: Sequence[str]) -> list[str]:
    """Returns the names of an entity's keys that have their own tokens, labeled images last.

    These are its labeled images and, if its article has other image keys besides the main image, all of the article's
    image keys. A lone main image needs no tokens of its own: those of the sections already contain it.

    Args:
        main: The name of the main image, or `None` if it is missing or unreadable.
        further: The names of the further keys.
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
        """Returns the entity's row for each further image that is a key, ascending, int64."""
        count = len(self._lines)
        keys = np.fromiter((len(self._lines.read(row)[3]) for row in range(count)), np.int64, count)
        return np.repeat(np.arange(count, dtype=np.int64), keys)

    def image_owners(self) -> IntArray:
        """Returns the entity's row for each article image that has its own tokens, ascending, int64."""
        count = len(self._lines)
        # In a build that an older version started, the lines lack this number and there are no such tokens.
        images = np.fromiter((sum(self._lines.read(row)[7:]) for row in range(count)), np.int64, count)
        return np.repeat(np.arange(count, dtype=np.int64), images)

    def labeled(self) -> IntArray:
        """Returns the numbers of the keys that are labeled images, including main images, ascending, int64."""
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
