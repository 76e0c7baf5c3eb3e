"""The rows of an index as they are stored, for new files to take over: those of one folder, or of all its parts."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from indexes.builder.report import read_problems
from indexes.store.index import Index
from indexes.store.keys import Keys, load_labeled
from indexes.store.manifest import Manifest
from indexes.store.search_kinds import stored_keys
from retriever.arrays import map_array
from retriever.types import FloatArray, IntArray


class StoredRows:
    """The rows of indexes that together are one.

    Args:
        indexes: The indexes.
        positions: The positions of each one's entities among all, ascending; none for a single index.
        manifest: The manifest of all, by default of the single index.
    """

    def __init__(
        self, indexes: Sequence[Index], positions: Sequence[IntArray] = (), manifest: Manifest | None = None
    ) -> None:
        self.indexes, self.image_weight = indexes, indexes[0].image_weight
        self.manifest = manifest or indexes[0].manifest
        sizes = [len(index) for index in indexes]
        self.positions: IntArray = np.concatenate(positions) if positions else np.arange(sum(sizes), dtype=np.int64)
        order = np.argsort(self.positions)
        self.positions = self.positions[order]
        self._homes = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order]
        self._own = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])[order]

    def __len__(self) -> int:
        """Returns the number of entities."""
        return len(self._homes)

    @cached_property
    def _rows(self) -> list[IntArray]:
        """The rows of each index's entities among all."""
        return [np.flatnonzero(self._homes == home) for home in range(len(self.indexes))]

    def at(self, row: int) -> tuple[Index, int]:
        """Returns the index that stores an entity, and its row there."""
        return self.indexes[self._homes[row]], int(self._own[row])

    def lines(self, name: str) -> Generator[bytes]:
        """Yields the lines of a file that has one per entity."""
        with ExitStack() as stack:
            files = [stack.enter_context((index.folder / name).open("rb")) for index in self.indexes]
            for home in self._homes:
                yield files[home].readline()

    def ids(self) -> tuple[IntArray, IntArray]:
        """Returns the hash of each entity's id [N], and of each other name with its entity's row [M, 2]."""
        hashes, others = np.empty(len(self), np.int64), [np.empty((0, 2), np.int64)]
        for index, rows in zip(self.indexes, self._rows, strict=True):
            stored: IntArray = map_array(index.folder / "entity_ids.npy")
            own = stored[1] >= 0
            hashes[rows[stored[1][own]]] = stored[0][own]
            others.append(np.stack([stored[0][~own], rows[~stored[1][~own]]], axis=1))
        return hashes, np.concatenate(others)

    def keys(self, scratch: Path) -> Keys | JoinedKeys:
        """Returns the keys; files for those that are not stored in rows are named like `scratch`."""
        stored = [stored_keys(index.folder, scratch.with_suffix(f".{n}.npy")) for n, index in enumerate(self.indexes)]
        return stored[0] if len(stored) == 1 else JoinedKeys(stored, self._rows)

    def labeled(self, keys: Keys | JoinedKeys) -> IntArray:
        """Returns the numbers of the keys that are labeled images."""
        own = [load_labeled(index.folder, index.manifest) for index in self.indexes]
        return keys.numbers(own) if isinstance(keys, JoinedKeys) else own[0]

    def problems(self) -> Iterator[dict[str, Any]]:
        """Yields the report's entries about main images, in the order of rows."""
        each = [
            (entry | {"row": int(rows[entry["row"]])} for rows, entry in zip(repeat(rows), read_problems(index.folder)))
            for index, rows in zip(self.indexes, self._rows, strict=True)
        ]
        return heapq.merge(*each, key=lambda entry: int(entry["row"]))


class JoinedKeys:
    """The keys of indexes that together are one, numbered like those of a single index (`indexes.store.keys.Keys`).

    Args:
        parts: The keys of each.
        rows: The rows of each one's entities among all.
    """

    def __init__(self, parts: Sequence[Keys], rows: Sequence[IntArray]) -> None:
        self._parts, self.entities = parts, sum(map(len, rows))
        owners = np.concatenate([own[part.owners] for part, own in zip(parts, rows, strict=True)])
        order = np.argsort(owners, kind="stable")
        self.owners: IntArray = owners[order]
        further = np.empty(len(order), np.int64)
        further[order] = self.entities + np.arange(len(order))
        ends = np.cumsum([0, *(len(part.owners) for part in parts)])
        self._numbers: list[IntArray] = [
            np.concatenate([own, further[first:last]]) for own, first, last in zip(rows, ends, ends[1:], strict=False)
        ]
        self.rows: IntArray = self.numbers([part.rows for part in parts])

    def numbers(self, own: Sequence[IntArray]) -> IntArray:
        """Returns the numbers of keys, ascending, by their numbers in each index."""
        return np.sort(np.concatenate([every[some] for every, some in zip(self._numbers, own, strict=True)]))

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the keys with the numbers `rows`, float32 [len(rows), length]."""
        keys = np.empty((len(rows), self._parts[0].length), np.float32)
        for part, numbers in zip(self._parts, self._numbers, strict=True):
            order = np.argsort(numbers)
            places = np.minimum(np.searchsorted(numbers, rows, sorter=order), len(numbers) - 1)
            here = numbers[order[places]] == rows if len(numbers) else np.zeros(len(rows), np.bool_)
            keys[here] = part.read(order[places[here]])
        return keys
