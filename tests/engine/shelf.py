"""A database of keys in a folder of NumPy files, as another package would write one: all that `KeyTable` asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from indexes.store.key_tables import engine
from indexes.store.search_kinds import Tuning
from retriever.types import EngineError, FloatArray, IntArray


class ShelfTable:
    """Keys in two files, searched one by one."""

    def __init__(self, uri: str, name: str) -> None:
        self.uri, self.name, self._folder = uri, name, Path(uri)

    def exists(self) -> bool:
        return (self._folder / f"{self.name}.ids.npy").exists()

    def create(self, length: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._save(np.empty(0, np.int64), np.empty((0, length), np.float32))

    def add(self, ids: IntArray, keys: FloatArray) -> None:
        old_ids, old_keys = self._read()
        if np.isin(ids, old_ids).any():
            raise EngineError(f"shelf {self.uri}: keys of these ids are there")
        self._save(np.concatenate([old_ids, ids]), np.concatenate([old_keys, keys]))

    def delete(self, ids: IntArray) -> None:
        old_ids, old_keys = self._read()
        kept = ~np.isin(old_ids, ids)
        self._save(old_ids[kept], old_keys[kept])

    def finish(self) -> int:
        return len(self._read()[0])

    def load(self) -> int:
        return int(self._read()[1].shape[1])

    def tunings(self) -> Sequence[Tuning]:
        return [({}, 1)]

    def search(
        self, queries: FloatArray, count: int, tuning: Tuning, among: IntArray | None
    ) -> Iterator[tuple[FloatArray, IntArray]]:
        ids, keys = self._read()
        if among is not None:
            ids, keys = ids[np.isin(ids, among)], keys[np.isin(ids, among)]
        for query in queries:
            products = keys @ query
            best = np.argsort(-products, kind="stable")[:count]
            yield products[best], ids[best]

    def read(self, ids: IntArray) -> FloatArray:
        held, keys = self._read()
        order = np.argsort(held)
        return keys[order[np.searchsorted(held, ids, sorter=order)]]

    def _read(self) -> tuple[IntArray, FloatArray]:
        try:
            return np.load(f"{self._folder}/{self.name}.ids.npy"), np.load(f"{self._folder}/{self.name}.keys.npy")
        except OSError as error:
            raise EngineError(f"shelf {self.uri}: {error}") from error

    def _save(self, ids: IntArray, keys: FloatArray) -> None:
        np.save(self._folder / f"{self.name}.ids.npy", ids)
        np.save(self._folder / f"{self.name}.keys.npy", keys)


SHELF = engine("shelf", ShelfTable)
