"""The articles of an unfinished build, and what its other stages read from them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.ids import hash_id, other_ids, save_ids
from indexes.lines import Articles, Lines, offsets_path, save_offsets, to_row
from retriever.files import write_lines
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity, IntArray

ARTICLE_FILES = ("entities.jsonl", "entities.offsets.npy", "entity_ids.npy", "skipped.json")
"""The files written while reading the knowledge base."""


class MainImage(NamedTuple):
    """An entity's main image: its name in the image source and, if it cannot be used, the problem and its reason."""

    path: str | None = None
    problem: Literal["missing", "unreadable"] | None = None
    reason: str | None = None

    @property
    def readable(self) -> bool:
        """Whether there is an image to encode."""
        return self.path is not None and self.problem is None


class MainImages:
    """The main images of all entities by row, read from disk on demand.

    Args:
        path: `images.jsonl`, see `indexes.image_stage`.
    """

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._lines)

    def __getitem__(self, row: int) -> MainImage:
        """Returns the main image of the entity at `row`."""
        return MainImage(*self._lines.read(row)[:3])

    def __iter__(self) -> Iterator[MainImage]:
        """Yields the main images in order."""
        return (self[row] for row in range(len(self)))


def write_articles(entities: Iterable[Entity], folder: Path) -> Articles:
    """Writes `entities.jsonl`, unless an earlier run has done so, and returns its entities."""
    path = folder / "entities.jsonl"
    if not offsets_path(path).exists():
        hashes, others = array("q"), array("q")

        def rows() -> Iterator[dict[str, Any]]:
            for entity in entities:
                for other in other_ids(entity):
                    others.extend((hash_id(other), len(hashes)))
                hashes.append(hash_id(entity.id))
                yield to_row(entity)

        write_lines(path, rows())
        save_ids(folder / "entity_ids.npy", np.array(hashes, np.int64), np.array(others, np.int64).reshape(-1, 2))
        save_offsets(path)
    return Articles(path)


def readable_rows(main_images: MainImages) -> IntArray:
    """Returns the rows of entities with a readable main image, int64."""
    return np.flatnonzero(np.fromiter((image.readable for image in main_images), dtype=bool)).astype(np.int64)


def section_texts(entity: Entity) -> list[str]:
    """Returns the text of each section as the fusion encoder reads it."""
    return [blip_caption(section_passage(entity.title, section.title, section.text)) for section in entity.sections]


def finite(values: torch.Tensor) -> NDArray[Any]:
    """Returns the encoder's output as an array.

    Raises:
        ValueError: A value is not finite.
    """
    if not values.isfinite().all():
        raise ValueError("the encoder returned values that are not finite; check its weights")
    found: NDArray[Any] = values.cpu().numpy()
    return found
