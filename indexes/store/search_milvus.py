"""Milvus (https://milvus.io), a distributed vector database on servers of its own."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from chat_models.proxies import is_direct, through_proxy
from indexes.extras import optional
from indexes.store.key_tables import engine
from indexes.store.search_kinds import Tuning
from retriever.types import EngineError, FloatArray, IntArray

_UPLOADED = 1000
"""Keys per request, 8 MB at a length of 2,048."""
_ASKED = 64
"""Queries per request."""
_MOST = 16384
"""Most results that Milvus returns."""
_POLLED_S = 0.5
_FACTORS = 2, 5, 10, 20, 50
_SEARCH_S = 10.0
"""Seconds after which a search is given up; without a limit, pymilvus repeats it for minutes."""


class Collection:
    """A Milvus collection of keys with 64-bit ids, which stay the same when an entity's row changes.

    Args:
        uri: The address of a server, or a `.db` file, which only one process at a time can open. The environment
            variable MILVUS_URI overrides it; MILVUS_TOKEN is the server's token or `user:password`.
        name: The collection's name.
    """

    def __init__(self, uri: str, name: str) -> None:
        self.uri, self.name = os.environ.get("MILVUS_URI") or uri, name
        pymilvus = optional("pymilvus", "milvus")
        self._types, self._error = pymilvus.DataType, pymilvus.MilvusException
        with self._named():
            self._client = pymilvus.MilvusClient(
                self.uri,
                token=os.environ.get("MILVUS_TOKEN", ""),
                grpc_options={"grpc.enable_http_proxy": 0} if _is_direct(self.uri) else {},
            )
        weakref.finalize(self, self._client.close)

    def exists(self) -> bool:
        """Returns whether the collection exists."""
        with self._named():
            return bool(self._client.has_collection(self.name))

    def create(self, length: int) -> None:
        """Creates an empty collection for keys of length `length`; drops an existing one of the same name."""
        with self._named():
            if self._client.has_collection(self.name):
                self._client.drop_collection(self.name)
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", self._types.INT64, is_primary=True)
            schema.add_field("key", self._types.FLOAT_VECTOR, dim=length)
            index = self._client.prepare_index_params()
            index.add_index("key", index_type="AUTOINDEX", metric_type="IP")
            self._client.create_collection(self.name, schema=schema, index_params=index)

    def load(self) -> int:
        """Loads the collection so that it can be searched; returns the length of its keys."""
        with self._named():
            self._client.load_collection(self.name)
            fields = {field["name"]: field for field in self._client.describe_collection(self.name)["fields"]}
        return int(fields["key"]["params"]["dim"])

    def add(self, ids: IntArray, keys: FloatArray) -> None:
        """Adds keys, or replaces those with the same ids."""
        for start in range(0, len(ids), _UPLOADED):
            part = slice(start, start + _UPLOADED)
            rows = [{"id": number, "key": key} for number, key in zip(ids[part].tolist(), keys[part], strict=True)]
            with self._named():
                self._client.upsert(self.name, rows)

    def delete(self, ids: IntArray) -> None:
        """Removes keys; ignores ids that are not in the collection."""
        for start in range(0, len(ids), _UPLOADED):
            with self._named():
                self._client.delete(self.name, ids=ids[start : start + _UPLOADED].tolist())

    def finish(self) -> int:
        """Waits until all that was sent is on disk, indexed, and seen by every search; returns the number of keys.

        Call it once after all requests: Milvus allows one flush of a collection in ten seconds. What was sent is safe
        before, since Milvus confirms a request when it is in its log.
        """
        with self._named():
            self._client.flush(self.name)
            while int(self._client.describe_index(self.name, "key").get("pending_index_rows", 0)):
                time.sleep(_POLLED_S)  # until then, searches among some keys miss a quarter of them
            counts = self._client.query(self.name, output_fields=["count(*)"], consistency_level="Strong")
        return int(counts[0]["count(*)"])

    def tunings(self) -> Sequence[Tuning]:
        """Returns numbers of candidates per result: the more Milvus shall find, the better it looks."""
        return [({}, factor) for factor in _FACTORS]

    def search(
        self, queries: FloatArray, count: int, tuning: Tuning, among: IntArray | None
    ) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yields inner products and ids, best first."""
        for start in range(0, len(queries), _ASKED):
            with self._named():
                results = self._client.search(
                    self.name,
                    data=list(queries[start : start + _ASKED]),
                    filter="" if among is None else f"id in {among.tolist()}",
                    anns_field="key",
                    limit=min(tuning[1] * count, _MOST),
                    # Milvus Lite sees only the `ef` nearest keys, also of those that may be found.
                    search_params={"metric_type": "IP", "params": {} if among is None else {"ef": _MOST}},
                    consistency_level="Bounded",  # no wait for what other versions send; `finish` has waited for ours
                    timeout=_SEARCH_S,
                )
            for hits in results:
                products = np.array([hit["distance"] for hit in hits], np.float32)
                yield products, np.array([hit["id"] for hit in hits], np.int64)

    def read(self, ids: IntArray) -> FloatArray:
        """Returns the keys with these ids, float32 [len(ids), length]."""
        keys = dict[int, FloatArray]()
        for start in range(0, len(ids), _UPLOADED):
            with self._named():
                rows = self._client.get(self.name, ids[start : start + _UPLOADED].tolist(), output_fields=["key"])
            keys |= {row["id"]: np.array(row["key"], np.float32) for row in rows}
        return np.stack([keys[number] for number in ids.tolist()])

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            cause = str(error.message).splitlines()[-1][-300:]  # without the server's stack trace
            way = "" if _is_direct(self.uri) else through_proxy(self.uri)
            raise EngineError(f"Milvus at {self.uri}, collection {self.name}: {cause}{way}") from error


def _is_direct(uri: str) -> bool:
    """Returns whether a server is reached without a proxy, which gRPC would use even for loopback."""
    return "://" not in uri or is_direct(uri)


MILVUS = engine("milvus", Collection)
"""The value that `indexes.store.engines` loads."""
