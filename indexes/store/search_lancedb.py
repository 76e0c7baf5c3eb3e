"""LanceDB (https://lancedb.com), tables of columns in a folder or an object store, without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.extras import optional
from indexes.store.key_tables import engine
from indexes.store.search_kinds import Tuning
from retriever.types import EngineError, FloatArray, IntArray

_SCANNED = 10_000
"""Most keys that are compared one by one; beyond, they get an index."""
_BITS = 128
"""Shortest keys of which one bit per dimension tells enough."""
_PER_LIST = 4096
"""Fewest keys of a list on average; LanceDB splits and joins its lists."""
_NAMED = 1000
"""Ids per condition when keys are deleted or read."""
_MORE = 8
"""How many times as many lists are read if only some keys may be found, of which each list has fewer."""
_SEARCH_S = 10.0
"""Seconds after which a search is given up."""


class LanceTable:
    """A LanceDB table of float16 keys. An open one is a snapshot: it does not see what others write later.

    Args:
        uri: A folder, or an address such as `s3://bucket/folder`. The environment variable LANCEDB_URI overrides it;
            LanceDB reads the keys of an object store from the usual variables, such as AWS_ACCESS_KEY_ID.
        name: The table's name.
    """

    def __init__(self, uri: str, name: str) -> None:
        self.uri, self.name = os.environ.get("LANCEDB_URI") or uri, name
        os.environ.setdefault("LANCE_LOG", "error")  # its warnings are about its own work
        self._arrow, self._index = optional("pyarrow", "lancedb"), optional("lancedb.index", "lancedb")
        with self._named():
            self._database = optional("lancedb", "lancedb").connect(self.uri)
        self._table: Any = None

    def exists(self) -> bool:
        """Returns whether the table exists, and opens it."""
        with self._named():
            try:
                self._table = self._database.open_table(self.name)
            except ValueError as error:
                if "was not found" in str(error):
                    return False
                raise
            return True

    def create(self, length: int) -> None:
        """Creates an empty table for keys of length `length`; drops an existing one of the same name."""
        vector = self._arrow.list_(self._arrow.float16(), length)
        schema = self._arrow.schema([("id", self._arrow.int64()), ("key", vector)])
        exists = self.exists()
        with self._named():
            if exists:
                self._database.drop_table(self.name)
            self._table = self._database.create_table(self.name, schema=schema)

    def add(self, ids: IntArray, keys: FloatArray) -> None:
        """Adds keys as one batch of columns."""
        values = self._arrow.array(keys.astype(np.float16).ravel())
        column = self._arrow.FixedSizeListArray.from_arrays(values, keys.shape[1])
        with self._named():
            self._open().add(self._arrow.record_batch([self._arrow.array(ids), column], ["id", "key"]))

    def delete(self, ids: IntArray) -> None:
        """Removes keys; ignores ids that are not in the table."""
        for start in range(0, len(ids), _NAMED):
            with self._named():
                self._open().delete(_among(ids[start : start + _NAMED]))

    def finish(self) -> int:
        """Brings the indexes up to date and joins small files; returns the number of keys."""
        with self._named():
            table = self._open()
            table.optimize()
            count, indexed = int(table.count_rows()), {index.name for index in table.list_indices()}
            if count > _SCANNED and "key_idx" not in indexed:
                # One bit per dimension, where these are enough and whole bytes, else the keys themselves. It takes 6 s
                # for 40,000 keys of length 512; a graph 69, 4-bit codes of products 138.
                length = self.load()
                kind = self._index.IvfRq if length >= _BITS and length % 8 == 0 else self._index.IvfFlat
                table.create_index("key", config=kind(distance_type="dot"))
            if count and "id_idx" not in indexed:
                table.create_index("id", config=self._index.BTree())
            return count

    def load(self) -> int:
        """Returns the length of the keys."""
        with self._named():
            return int(self._open().schema.field("key").type.list_size)

    def tunings(self) -> Sequence[Tuning]:
        """Returns numbers of lists to read and of candidates to rescore per result, cheapest first."""
        lists = self._open().count_rows() // _PER_LIST + 1
        probed = [1 << power for power in range(3, max(3, lists.bit_length()) + 1)]
        return [({"nprobes": number}, factor) for number in probed for factor in (2, 5, 10, 20, 50)]

    def search(
        self, queries: FloatArray, count: int, tuning: Tuning, among: IntArray | None
    ) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yields inner products and ids, best first.

        LanceDB rounds queries to float16, too, so the products of what it returns are computed here.
        """
        parameters, factor = tuning
        probed = parameters["nprobes"] * max(1, count // 20)
        with self._named():
            search = self._open().search(list(queries), vector_column_name="key").distance_type("dot")
            search = search.nprobes(probed).refine_factor(factor).select(["id", "key", "_distance"]).limit(count)
            if among is not None:
                search = search.where(_among(among), prefilter=True).nprobes(_MORE * probed)
            hits = search.to_arrow(timeout=timedelta(seconds=_SEARCH_S))
        numbers = hits["query_index"].to_numpy() if len(queries) > 1 else np.zeros(len(hits), np.int64)
        keys, ids = self._keys(hits), hits["id"].to_numpy()
        for number, query in enumerate(queries):
            own = np.flatnonzero(numbers == number)
            products = keys[own] @ query
            best = np.argsort(-products, kind="stable")
            yield products[best], ids[own[best]]

    def read(self, ids: IntArray) -> FloatArray:
        """Returns the keys with these ids, float32 [len(ids), length]."""
        keys = np.empty((len(ids), self.load()), np.float32)
        for start in range(0, len(ids), _NAMED):
            part = ids[start : start + _NAMED]
            with self._named():
                rows = self._open().search().where(_among(part)).select(["id", "key"]).limit(len(part)).to_arrow()
            if len(rows) < len(part):
                raise EngineError(f"LanceDB at {self.uri}, table {self.name}: lacks {len(part) - len(rows)} keys")
            order = np.argsort(rows["id"].to_numpy())[np.argsort(np.argsort(part))]
            keys[start : start + _NAMED] = self._keys(rows)[order]
        return keys

    def _keys(self, rows: Any) -> FloatArray:
        values: NDArray[np.float16] = rows["key"].combine_chunks().flatten().to_numpy()
        return values.astype(np.float32).reshape(len(rows), self.load())

    def _open(self) -> Any:
        if self._table is None:
            self._table = self._database.open_table(self.name)
        return self._table

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:  # LanceDB raises nothing more specific
            cause = str(error).splitlines()[-1][:300]
            raise EngineError(f"LanceDB at {self.uri}, table {self.name}: {cause}") from error


def _among(ids: IntArray) -> str:
    return f"id IN ({', '.join(map(str, ids.tolist()))})"


LANCEDB = engine("lancedb", LanceTable)
"""The value that `indexes.store.engines` loads."""
