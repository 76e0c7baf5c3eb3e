"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.store.manifest import OWNERS, Candidates, Manifest
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
