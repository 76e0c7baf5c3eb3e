"""Entity search with Milvus, a distributed vector database, for keys that outgrow one machine.

Milvus only proposes candidates. Their scores are computed from the index's own `vectors.npy`, and keys that are not in
the index are ignored. So the files determine the results even while a newer version writes to the same collection.
"""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from chat_models.proxies import is_direct, through_proxy
from indexes.extras import optional
from indexes.growing import save_array
from indexes.ids import hash_id
from indexes.progress import progress_bar
from indexes.store.engines import Engine
from indexes.store.keys import Keys
from indexes.store.layout import REBUILD
from indexes.store.manifest import KEY_IDS, SearchRecord
from indexes.store.recall import ExactSearch, HeldOutQueries
from indexes.store.search import DEPTH, load_vectors, rescored, scanned
from indexes.store.search_kinds import TARGET, blocks, write_key_vectors
from retriever.files import write_whole
from retriever.types import BoolArray, EngineError, FloatArray, IntArray

logger = logging.getLogger(__name__)

_UPLOADED = 1000
"""Keys per request, 8 MB at a length of 2,048."""
_ASKED = 64
"""Queries per request."""
_MOST = 16384
"""Most results that Milvus returns."""
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

    def load(self) -> None:
        """Loads the collection so that it can be searched."""
        with self._named():
            self._client.load_collection(self.name)

    def upsert(self, ids: IntArray, keys: FloatArray) -> None:
        """Adds keys, or replaces those with the same ids."""
        for start in range(0, len(ids), _UPLOADED):
            part = slice(start, start + _UPLOADED)
            rows = [{"id": one, "key": key} for one, key in zip(ids[part].tolist(), keys[part], strict=True)]
            with self._named():
                self._client.upsert(self.name, rows)

    def delete(self, ids: IntArray) -> None:
        """Removes keys; ignores ids that are not in the collection."""
        for start in range(0, len(ids), _UPLOADED):
            with self._named():
                self._client.delete(self.name, ids=ids[start : start + _UPLOADED].tolist())

    def finish(self) -> int:
        """Waits until all that was sent is on disk and every search sees it; returns the number of keys.

        Call it once after all requests: Milvus allows one flush of a collection in ten seconds. What was sent is safe
        before, since Milvus confirms a request when it is in its log.
        """
        with self._named():
            self._client.flush(self.name)
        return self.count()

    def count(self) -> int:
        """Returns the number of keys, those that were sent just before included."""
        with self._named():
            found = self._client.query(self.name, output_fields=["count(*)"], consistency_level="Strong")
        return int(found[0]["count(*)"])

    def candidates(self, queries: FloatArray, depth: int) -> Iterator[IntArray]:
        """Yields for each query the ids of up to `depth` keys, int64, largest inner product first."""
        for start in range(0, len(queries), _ASKED):
            with self._named():
                hits = self._client.search(
                    self.name,
                    data=list(queries[start : start + _ASKED]),
                    anns_field="key",
                    limit=min(depth, _MOST),
                    search_params={"metric_type": "IP"},
                    consistency_level="Bounded",  # no wait for what other versions send; `finish` has waited for ours
                    timeout=_SEARCH_S,
                )
            for own in hits:
                yield np.array([hit["id"] for hit in own], np.int64)

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


class MilvusSearch:
    """Searches with Milvus and rescores the candidates exactly, up to the rounding to float16.

    Args:
        collection: Holds the keys.
        ids: Int64 [2, keys], the sorted ids of the index's keys and the number of each key.
        vectors: Float16 [keys, length], memory-mapped or not.
        factor: Candidates to rescore per result.
    """

    def __init__(self, collection: Collection, ids: IntArray, vectors: NDArray[np.float16], factor: int) -> None:
        self._collection, self._ids, self._vectors, self._factor = collection, ids, vectors, factor
        self.shape: tuple[int, int] = (ids.shape[1], vectors.shape[1])

    def search(self, vectors: torch.Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and keys, best first; some keys alone are compared one by one."""
        queries = vectors.float().cpu()
        if among is not None:
            keys = np.sort(self._ids[1])
            return scanned(self._vectors, queries, keys[among[keys]], k)
        depth = min(self._factor * max(k, DEPTH), self.shape[0])
        found = self._collection.candidates(queries.numpy(), depth) if depth else iter([np.empty(0, np.int64)])
        return rescored(self._vectors, queries, map(self._known, found), k)

    def _known(self, ids: IntArray) -> IntArray:
        """Returns the keys with these ids, without those that belong only to other versions of the index."""
        places = np.minimum(np.searchsorted(self._ids[0], ids), self.shape[0] - 1)
        found: IntArray = self._ids[1][places[self._ids[0][places] == ids]]
        return found


def open_milvus(folder: Path, record: SearchRecord) -> MilvusSearch:
    """Opens the entity index of a folder whose keys are in Milvus.

    Raises:
        ValueError: The collection does not exist.
        OSError: The server cannot be reached, or another process has the file open.
    """
    collection = Collection(record.uri, record.collection)
    if not collection.exists():
        raise ValueError(f"Milvus at {collection.uri}: collection {record.collection} not found; {REBUILD}")
    collection.load()
    ids: IntArray = np.load(folder / KEY_IDS, mmap_mode="r", allow_pickle=False)
    return MilvusSearch(collection, ids, load_vectors(folder), record.rescored)


def collection_name(folder: Path, inputs: str) -> str:
    """Returns the name of an index's collection, derived from its folder and its inputs."""
    return f"omgm_{hash_id(f'{folder.resolve()} {inputs}') & (1 << 64) - 1:016x}"


def key_ids(folder: Path, keys: Keys) -> IntArray:
    """Returns the id in Milvus of every key, int64 [keys with and without vectors].

    An entity's first key has the hash of its id (`entity_ids.npy` in `folder`); further keys have hashes of that.

    Raises:
        ValueError: Two keys have the same id (a chance of one in 4 million for 3 million keys).
    """
    hashes, rows = np.load(folder / "entity_ids.npy", allow_pickle=False)
    own = rows >= 0  # the rest are other names
    first = np.empty(int(own.sum()), np.int64)
    first[rows[own]] = hashes[own]
    starts = np.searchsorted(keys.owners, keys.owners)
    further = [hash_id(f"{first[owner]} {i - starts[i]}") for i, owner in enumerate(keys.owners.tolist())]
    ids = np.concatenate([first, np.array(further, np.int64)])
    if len(np.unique(ids)) != len(ids):
        raise ValueError('two keys have the same id in Milvus; use another search.kind, such as "ivf-pq"')
    return ids


def write_milvus(
    folder: Path,
    keys: Keys,
    ids: IntArray,
    queries: HeldOutQueries,
    uri: str,
    collection: str,
) -> SearchRecord:
    """Uploads keys to a collection of their own and returns the record of the entity index.

    Progress is recorded in `folder`, so that a killed upload resumes when it is repeated. Sending a batch twice does no
    harm.

    Args:
        folder: The folder for `key_ids.npy` and `vectors.npy`.
        keys: Keys by entity.
        ids: Their ids, see `key_ids`.
        queries: Held-out queries, used to choose the number of candidates.
        uri: See `Collection`.
        collection: Name of the collection.

    Raises:
        OSError: The server cannot be reached or refuses a request.
    """
    there, note = Collection(uri, collection), folder / "uploaded.json"
    started = json.loads(note.read_bytes()) if note.exists() else None
    if started is None or started["uri"] != there.uri or not there.exists():
        there.create(keys.length)
        started = {"uri": there.uri, "done": 0}
    with progress_bar(total=len(keys.rows), initial=started["done"], desc="upload keys", unit="key") as bar:
        for start, block in blocks(keys, started["done"]):
            there.upsert(ids[keys.rows[start : start + len(block)]], block)
            write_whole(note, json.dumps({"uri": there.uri, "done": start + len(block)}).encode())
            bar.update(len(block))
    if (count := there.finish()) < len(keys.rows):
        note.unlink()
        raise OSError(f"{_lacks(there, count, keys)}; repeat the command to upload all keys again")
    _write_ids(folder, keys, ids)
    write_key_vectors(folder, keys)
    return _measured(folder, keys, queries, there)


def update_milvus(
    folder: Path, keys: Keys, ids: IntArray, changed: IntArray, gone: IntArray, record: SearchRecord
) -> SearchRecord:
    """Brings the collection of an index up to date after changes and writes the files of the new version.

    Args:
        folder: The folder for `key_ids.npy` and `vectors.npy`.
        keys: All keys of the new version.
        ids: Their ids, see `key_ids`.
        changed: The numbers of new and changed keys, int64.
        gone: The ids of keys of the old version that are not in the new one, int64.
        record: The record of the entity index.

    Raises:
        OSError: The server cannot be reached or refuses a request; the old version still answers.
    """
    there = Collection(record.uri, record.collection)
    there.delete(gone)
    there.upsert(ids[changed], keys.read(changed))
    if (count := there.finish()) < len(keys.rows):
        raise OSError(f"{_lacks(there, count, keys)}; drop the collection and {REBUILD}")
    _write_ids(folder, keys, ids)
    write_key_vectors(folder, keys)
    return record


def _lacks(there: Collection, count: int, keys: Keys) -> str:
    return f"Milvus at {there.uri}, collection {there.name}: has {count} of {len(keys.rows)} keys"


def _write_ids(folder: Path, keys: Keys, ids: IntArray) -> None:
    """Writes `key_ids.npy`: int64 [2, keys], the sorted ids and the key of each."""
    order = np.argsort(ids[keys.rows])
    save_array(folder / KEY_IDS, np.stack([ids[keys.rows][order], keys.rows[order]]))


def _measured(folder: Path, keys: Keys, queries: HeldOutQueries, there: Collection) -> SearchRecord:
    """Returns the record with the lowest number of candidates whose recall reaches `TARGET`, or else the highest."""
    there.load()
    exact = ExactSearch(keys, queries.vectors, DEPTH)
    ids: IntArray = np.load(folder / KEY_IDS, mmap_mode="r", allow_pickle=False)
    for factor in _FACTORS:
        recall = exact.recall(MilvusSearch(there, ids, load_vectors(folder), factor))
        if recall is None or recall >= TARGET:
            break
    else:
        logger.warning("recall@%d of Milvus is %.3f relative to exact search, below %.2f", DEPTH, recall, TARGET)
    return SearchRecord(
        kind="milvus",
        faiss="",
        rescored=factor,
        recall=None if recall is None else round(recall, 6),
        k=DEPTH,
        queries=queries.about,
        uri=there.uri,
        collection=there.name,
    )


def _write(folder: Path, keys: Keys, queries: HeldOutQueries, index: Path, inputs: str, uri: str) -> SearchRecord:
    return write_milvus(folder, keys, key_ids(index, keys), queries, uri, collection_name(index, inputs))


def _update(
    folder: Path, keys: Keys, old: Keys, old_folder: Path, changed: IntArray, record: SearchRecord
) -> SearchRecord:
    ids = key_ids(folder, keys)
    gone = np.setdiff1d(key_ids(old_folder, old)[old.rows], ids[keys.rows])
    return update_milvus(folder, keys, ids, changed, gone, record)


MILVUS = Engine(_write, _update, open_milvus)
"""The value that `indexes.store.engines` loads."""
