"""Keys of one entity in an index, to keep them when its article changes: those of labeled images, or the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from indexes.store.keys import load_owners
from indexes.store.manifest import LABELED_KEYS, Manifest
from indexes.store.search import StoredVectors
from retriever.types import FloatArray, IntArray


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
