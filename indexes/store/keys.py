"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.growing import release
from indexes.store.manifest import LABELED_KEYS, OWNERS, Candidates, Manifest
from indexes.store.search import StoredVectors
from retriever.arrays import map_array
from retriever.types import FloatArray, IntArray

IMAGE_WEIGHT = 0.5
"""Weight of the main image in a combined key, unless a profile sets another."""
BLOCK = 16384
"""Keys in memory at a time."""
NO_OWNERS: IntArray = np.empty(0, np.int64)
"""The owners of further keys where there are none."""


class Keys(NamedTuple):
    """The keys of entities: key `row` is the first key of the entity at `row`; all further keys follow.

    Attributes:
        parts: Arrays float32 or float16 [N + F, dimension]; a key is the concatenation of its rows in all of them.
        rows: The numbers of the keys that exist, int64 [M]; an entity may have none.
        owners: The entities of the further keys, ascending, int64 [F].
    """

    parts: tuple[NDArray[Any], ...]
    rows: IntArray
    owners: IntArray = NO_OWNERS

    @property
    def entities(self) -> int:
        """Number of entities, with or without a key."""
        return len(self.parts[0]) - len(self.owners)

    @property
    def searchable(self) -> int:
        """Number of entities that have a key."""
        return len(self.rows) - len(self.owners)

    @property
    def length(self) -> int:
        """Length of a key."""
        return sum(part.shape[1] for part in self.parts)

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the keys with the numbers `rows`, float32 [len(rows), length]."""
        return np.concatenate([part[rows] for part in self.parts], axis=1, dtype=np.float32)

    def blocks(self, first: int = 0, size: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Yields the keys from position `first` on in blocks, each with its position; holds one block in memory."""
        size = size or BLOCK
        for start in range(first, len(self.rows), size):
            yield start, self.read(self.rows[start : start + size])
            for part in self.parts:
                release(part)


def load_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity of each further key of an index, ascending, int64 [F]."""
    return map_array(folder / OWNERS) if manifest.counts.further_keys else NO_OWNERS


def as_query(vectors: torch.Tensor, candidates: Candidates, image_weight: float) -> torch.Tensor:
    """Returns the queries [B, length of a key] whose inner products with keys are the scores of step 1.

    For combined keys, a score is `image_weight` times the similarity to the main image plus `1 - image_weight` times
    the similarity to the summary, so the weight can change without rebuilding the index.
    """
    if candidates != "combined":
        return vectors
    return torch.cat([image_weight * vectors, (1 - image_weight) * vectors], dim=1)


def load_labeled(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the numbers of the keys that are labeled images, ascending, int64."""
    if manifest.inputs.labeled == "none":
        return np.empty(0, np.int64)
    return map_array(folder / LABELED_KEYS)


def labeled_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity's row for each labeled image that has tokens, ascending, int64."""
    if not manifest.counts.labeled_tokens:
        return np.empty(0, np.int64)
    labeled, entities = load_labeled(folder, manifest), manifest.counts.entities
    main, further = labeled[labeled < entities], labeled[labeled >= entities] - entities
    return np.sort(np.concatenate([main, load_owners(folder, manifest)[further]]))


class StoredKeys:
    """The keys of the entities of an index, read from its files one by one.

    Args:
        folder: The folder of its files.
        manifest: Its manifest.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._entities, self._vectors = manifest.counts.entities, StoredVectors(folder, manifest.search)
        self._owners, self._labeled = load_owners(folder, manifest), load_labeled(folder, manifest)

    def of(self, row: int) -> FloatArray:
        """Returns the keys of an entity, float32 [keys, length of a key]: none if it is not searchable."""
        numbers, known = self._numbers(row), self._vectors.rows
        pairs = zip(numbers.tolist(), np.searchsorted(known, numbers).tolist(), strict=True)
        places = [place for number, place in pairs if place < len(known) and known[place] == number]
        keys = [self._vectors.read(place, place + 1) for place in places]
        return np.concatenate([np.empty((0, self._vectors.dimension), np.float32), *keys], dtype=np.float32)

    def labeled(self, row: int) -> int:
        """Returns how many of an entity's keys are labeled images: the last of them, possibly all."""
        return int(np.isin(self._numbers(row), self._labeled).sum())

    def _numbers(self, row: int) -> IntArray:
        """Returns the numbers that an entity's keys have if it is searchable."""
        first, last = np.searchsorted(self._owners, [row, row + 1]).tolist()
        return np.array([row, *range(self._entities + first, self._entities + last)], np.int64)
