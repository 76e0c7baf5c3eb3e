"""The entities of an index, with its later changes, whose fields have certain values (`indexes.fields`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from indexes.live.reading import version_of
from indexes.live.version import Version
from indexes.store.columns import SPREAD
from indexes.store.fields import FIELDS, FILES, hashes_of
from indexes.store.index import Index
from retriever.arrays import map_array
from retriever.filters import fits
from retriever.types import BoolArray, Entity, Filter, IntArray

_LOOKED_AT, _LISTED = 1000, 10
"""Entities whose values a message lists, and values in it."""


class IndexFields:
    """The fields of an index's entities; thread-safe.

    Args:
        index: The index. If it was built without fields, nothing fits a filter.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.among = lru_cache(maxsize=16)(self._among)

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return self._index.manifest.inputs.columns.get(FIELDS, "").splitlines()

    def _among(self, filter: Filter) -> BoolArray:
        """Returns which entities of the files fit a filter, bool [entities]."""
        chosen = np.ones(self._index.manifest.counts.entities, np.bool_)
        if not self.names:
            return ~chosen
        values, rows = self._sorted
        for name, texts in filter:
            own, wanted = np.zeros(len(chosen), np.bool_), hashes_of((name, text) for text in texts)
            for first, last in zip(*(np.searchsorted(values, wanted, side) for side in ("left", "right")), strict=True):
                own[rows[first:last]] = True
            chosen &= own
        return chosen

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.uint64], IntArray]:
        """The hashes of all values, ascending, and the row of each: a scan per tenant would cost too much."""
        values, keys = (map_array(self._index.folder / name) for name in FILES)
        order = np.argsort(values[:, 0], kind="stable")
        return values[order, 0], keys[order] // SPREAD

    def check(self, filter: Filter, within: Filter) -> None:
        """Checks that there are such fields, with such values among the entities that fit `within`.

        Raises:
            ValueError: There are none; the message says what there is.
        """
        version = version_of(self._index)
        if not self.names:
            advice = "build it again with `omgm build-index --field NAME`"
            raise ValueError(f"filter: the index {self._index.name} was built without fields; {advice}")
        for name, texts in filter:
            if name not in self.names:
                raise ValueError(f"filter.{name[:40]}: unknown field; fields are {', '.join(self.names)}")
            for text in texts:
                if next(_fitting(version, (*within, (name, (text,)))), None) is None:
                    listed = _listed(version, name, within)
                    raise ValueError(f"filter.{name}: no entity has {text[:40]!r}; values are {listed or 'none'}")


def _fitting(version: Version, filter: Filter) -> Iterator[Entity]:
    """Yields the entities that fit a filter."""
    gone = set(version.removed.values())
    yield from (entry.change.entity for entry in version.entries.values() if fits(entry.change.entity, filter))
    rows = np.flatnonzero(version.base.fields.among(filter))
    yield from (version.base.entity(row) for row in rows.tolist() if row not in gone)


def _listed(version: Version, name: str, within: Filter) -> str:
    """Returns the values of a field that most of the first entities that fit have, as text."""
    entities = islice(_fitting(version, within), _LOOKED_AT)
    counts = Counter(value for entity in entities for field, value in entity.fields if field == name)
    more = ", …" if len(counts) > _LISTED else ""
    return ", ".join(repr(value[:40]) for value, _ in counts.most_common(_LISTED)) + more
