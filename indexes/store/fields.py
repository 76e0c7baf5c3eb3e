"""How the fields of entities are stored in an index, by which searches can be limited."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

FIELDS = "fields"
"""The name of the column (`indexes.fields`)."""
FILES = "fields.npy", "fields_of.npy"


def hashes_of(pairs: Iterable[tuple[str, str]]) -> NDArray[np.uint64]:
    """Returns a hash of each pair of a field and a value: of a billion values, two are the same with 3 %."""
    digests = (hashlib.blake2b("\t".join(pair).encode("utf-8", "replace"), digest_size=8).digest() for pair in pairs)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
