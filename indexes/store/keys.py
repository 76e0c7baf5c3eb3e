"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.store.manifest import LABELED_KEYS, OWNERS, Candidates, Manifest
from indexes.store.search import StoredVectors
from retriever.types import FloatArray, IntArray

IMAGE_WEIGHT = 0.5
"""Weight of the main image in a combined key, unless a profile sets another."""


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


def load_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity of each further key of an index, ascending, int64 [F]."""
    return np.load(folder / OWNERS, allow_pickle=False) if manifest.counts.further_keys else NO_OWNERS


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
    return np.asarray(np.load(folder / LABELED_KEYS, mmap_mode="r", allow_pickle=False))


def labeled_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity's row for each labeled image that has tokens, ascending, int64."""
    if not manifest.counts.labeled_tokens:
        return np.empty(0, np.int64)
    labeled, entities = load_labeled(folder, manifest), manifest.counts.entities
    main, further = labeled[labeled < entities], labeled[labeled >= entities] - entities
    return np.sort(np.concatenate([main, load_owners(folder, manifest)[further]]))


def labeled_numbers(folder: Path, manifest: Manifest, row: int) -> IntArray:
    """Returns the numbers of an entity's keys that are labeled images, int64: the last of its keys, possibly all."""
    labeled = load_labeled(folder, manifest)
    if not len(labeled):
        return labeled
    own = _numbers(folder, manifest, row)
    found: IntArray = own[np.isin(own, labeled)]
    return found


def labeled_keys(folder: Path, manifest: Manifest, row: int) -> FloatArray:
    """Returns those keys of an entity that are labeled images, float32 [keys, length of a key]."""
    return _read(folder, manifest, labeled_numbers(folder, manifest, row))


def article_keys(folder: Path, manifest: Manifest, row: int) -> FloatArray:
    """Returns those keys of an entity that are not labeled images, float32 [keys, length of a key]."""
    numbers = _numbers(folder, manifest, row)
    return _read(folder, manifest, numbers[~np.isin(numbers, labeled_numbers(folder, manifest, row))])


def _numbers(folder: Path, manifest: Manifest, row: int) -> IntArray:
    """Returns the numbers that an entity's keys have if it is searchable."""
    first, last = np.searchsorted(load_owners(folder, manifest), [row, row + 1])
    further = manifest.counts.entities + np.arange(first, last, dtype=np.int64)
    return np.concatenate([np.array([row], np.int64), further])


def _read(folder: Path, manifest: Manifest, numbers: IntArray) -> FloatArray:
    if not len(numbers):
        return np.empty((0, manifest.key_length), np.float32)
    stored = StoredVectors(folder, manifest.search)
    places = np.searchsorted(stored.rows, numbers).tolist()
    return np.concatenate([stored.read(place, place + 1) for place in places]).astype(np.float32)
