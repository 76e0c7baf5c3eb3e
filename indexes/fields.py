"""The column of an index with the fields of its entities, such as a category, by which searches can be limited."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from indexes.store.columns import Column, Encoded, Stored

if TYPE_CHECKING:
    from indexes.live.fields import IndexFields


class FieldsModel:
    """The column's model: which fields entities have.

    Args:
        names: The names of the fields.
    """

    dimension = 1

    def __init__(self, *names: str) -> None:
        self.fingerprint = "\n".join(sorted(names))


def hashes_of(pairs: Iterable[tuple[str, str]]) -> NDArray[np.uint64]:
    """Returns a hash of each pair of a field and a value: of a billion values, two are the same with 3 %."""
    digests = (hashlib.blake2b("\t".join(pair).encode("utf-8", "replace"), digest_size=8).digest() for pair in pairs)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _encode(model: FieldsModel, items: Sequence[Stored]) -> list[Encoded]:
    hashes = (hashes_of(item.entity.fields) for item in items)
    return [Encoded(own[:, None], np.arange(len(own), dtype=np.int64)) for own in hashes]


def _search(index: Any, model: FieldsModel | None) -> IndexFields:
    from indexes.live.fields import IndexFields

    return IndexFields(index)


FIELDS = Column(
    "fields", "entities", np.uint64, _encode, ("fields.npy", "fields_of.npy"), lambda _: FieldsModel(), search=_search
)
