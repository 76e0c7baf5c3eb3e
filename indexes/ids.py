"""Entity ids as 64-bit hashes, to find rows and duplicates by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from indexes.growing import save_array


def hash_id(entity_id: str) -> int:
    """Returns a signed 64-bit hash of an entity's id."""
    return int.from_bytes(hashlib.blake2b(entity_id.encode(), digest_size=8).digest(), "big", signed=True)


def save_ids(path: Path, hashes: Iterable[int]) -> None:
    """Writes the table that `Index.row_of` looks up: int64 [2, N], the sorted hashes and their rows.

    Args:
        path: The `.npy` file.
        hashes: `hash_id` of every entity's id, in order.
    """
    found = np.fromiter(hashes, dtype=np.int64)
    rows = np.argsort(found, kind="stable")
    save_array(path, np.stack([found[rows], rows]).astype(np.int64))
