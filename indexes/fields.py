"""The column of an index with the fields of its entities, such as a category, by which searches can be limited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from indexes.store.columns import Column, Encoded, Stored
from indexes.store.fields import FIELDS as NAME
from indexes.store.fields import FILES, hashes_of


class FieldsModel:
    """The column's model: which fields entities have.

    Args:
        names: The names of the fields.
    """

    dimension = 1

    def __init__(self, *names: str) -> None:
        self.fingerprint = "\n".join(sorted(names))


def _encode(model: FieldsModel, items: Sequence[Stored]) -> list[Encoded]:
    hashes = (hashes_of(item.entity.fields) for item in items)
    return [Encoded(own[:, None], np.arange(len(own), dtype=np.int64)) for own in hashes]


def _open(profile: Any) -> FieldsModel:
    return FieldsModel()


def _search(index: Any, model: FieldsModel | None) -> Any:
    from indexes.live.fields import IndexFields

    return IndexFields(index)


FIELDS = Column(NAME, "entities", np.uint64, _encode, FILES, _open, search=_search)
