"""Keys in a vector database, for those that outgrow one machine: what all databases share.

The database holds the keys and gives the scores of step 1; a folder holds the ids of its keys, and those of other
versions of an index in the same table are ignored. So an index can be served without its `vectors.npy`.

A database is a class like `KeyTable` and a line that names it, here or in another package:

    [project.entry-points."omgm.engines"]
    shelf = "shelf_search:SHELF"        # SHELF = engine("shelf", ShelfTable)
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from indexes.growing import save_array
from indexes.ids import hash_id
from indexes.progress import progress_bar
from indexes.store.engines import UPLOADED, Engine
from indexes.store.keys import Keys
from indexes.store.layout import REBUILD
from indexes.store.manifest import KEY_IDS, SearchRecord
from indexes.store.recall import ExactSearch, HeldOutQueries
from indexes.store.search import DEPTH, SCANNED
from indexes.store.search_kinds import MARGIN, TARGET, Tuning, write_key_vectors
from retriever.arrays import map_array
from retriever.files import write_whole
from retriever.types import BoolArray, FloatArray, IntArray

logger = logging.getLogger(__name__)

_ROUNDED = 1e-3
"""Scores of unit vectors in float16 differ from those in float32 by less."""


class KeyTable(Protocol):
    """The keys of one index in a database, with 64-bit ids, which stay the same when an entity's row changes.

    Its errors are `EngineError`, which says where the database is and what it answered.
    """

    uri: str
    """Where the database is."""

    name: str
    """The name of the table."""

    def exists(self) -> bool:
        """Returns whether the table exists."""

    def create(self, length: int) -> None:
        """Creates an empty table for keys of length `length`; drops an existing one of the same name."""

    def add(self, ids: IntArray, keys: FloatArray) -> None:
        """Adds keys whose ids are not in the table; when it returns, they outlive a kill of the database."""

    def delete(self, ids: IntArray) -> None:
        """Removes keys; ignores ids that are not in the table."""

    def finish(self) -> int:
        """Waits until every search sees what was sent before, and fast; returns the number of keys."""

    def load(self) -> int:
        """Prepares searches and reads of a finished table; returns the length of its keys."""

    def tunings(self) -> Sequence[Tuning]:
        """Returns settings to choose from, cheapest first."""

    def search(
        self, queries: FloatArray, count: int, tuning: Tuning, among: IntArray | None
    ) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yields for each query the inner products and ids of at least `count` keys if there are as many, best first.

        Args:
            queries: Float32 [B, length].
            count: Number of keys.
            tuning: One of `tunings`.
            among: The ids that may be found, ascending; by default all.
        """

    def read(self, ids: IntArray) -> FloatArray:
        """Returns the keys with these ids, [len(ids), length]."""


Connect = Callable[[str, str], KeyTable]
"""Returns the table of an address and a name."""


class TableSearch:
    """Searches the keys of an index in a table.

    Args:
        table: The table, loaded.
        ids: Int64 [2, keys], the sorted ids of the index's keys and the number of each key.
        length: The length of a key.
        tuning: One of the table's.
    """

    def __init__(self, table: KeyTable, ids: IntArray, length: int, tuning: Tuning) -> None:
        self._table, self._ids, self._tuning = table, ids, tuning
        self.shape: tuple[int, int] = (ids.shape[1], length)

    def search(self, vectors: torch.Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and keys, best first; may return fewer than `k` if the database does."""
        queries = vectors.float().cpu().numpy()
        count, selected = min(max(k, DEPTH), self.shape[0]), None
        if among is not None:
            own = among[self._ids[1]]
            share = int(own.sum())
            if share <= SCANNED:
                count, selected = min(count, share), self._ids[0][own]
            else:  # too many to name: of a random share, twice as many as needed are found
                count = min(math.ceil(2 * count * self.shape[0] / share), self.shape[0])
        scores = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k), -1, np.int64)
        enough = not count
        while not enough:
            enough, last = True, among is None or selected is not None or count == self.shape[0]
            for number, (products, ids) in enumerate(self._table.search(queries, count, self._tuning, selected)):
                places = np.minimum(np.searchsorted(self._ids[0], ids), self.shape[0] - 1)
                keys, known = self._ids[1][places], self._ids[0][places] == ids
                if among is not None:
                    known &= among[keys]
                best = np.flatnonzero(known)[:k]
                scores[number, : len(best)], rows[number, : len(best)] = products[best], keys[best]
                enough &= last or len(best) == k or len(ids) < count
            count = min(4 * count, self.shape[0])
        return scores, rows

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the keys with these numbers, [len(rows), length]."""
        return self._table.read(self._ids[0][self._order[np.searchsorted(self._ids[1], rows, sorter=self._order)]])

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self._ids[1])


def engine(kind: str, connect: Connect) -> Engine:
    """Returns the engine of a database, for the entry points `omgm.engines`.

    Args:
        kind: The name of the entry point.
        connect: The class of the database's tables.
    """
    return Engine(partial(_write, kind, connect), partial(_update, connect), partial(_open, connect), connect)


def _open(connect: Connect, folder: Path, record: SearchRecord) -> TableSearch:
    """Opens the entity index of a folder whose keys are in a database.

    Raises:
        ValueError: The table does not exist.
        OSError: The database cannot be reached, or another process has the file open.
    """
    table = connect(record.uri, record.collection)
    if not table.exists():
        raise ValueError(f"{record.kind} at {table.uri}: {record.collection} not found; {REBUILD}")
    ids: IntArray = map_array(folder / KEY_IDS)
    return TableSearch(table, ids, table.load(), (record.parameters, record.rescored))


def table_name(folder: Path, inputs: str) -> str:
    """Returns the name of an index's table, derived from its folder and its inputs."""
    return f"omgm_{hash_id(f'{folder.resolve()} {inputs}') & (1 << 64) - 1:016x}"


def key_ids(folder: Path, keys: Keys) -> IntArray:
    """Returns the id in the database of every key, int64 [keys with and without vectors].

    An entity's first key has the hash of its id (`entity_ids.npy` in `folder`); further keys have hashes of that.

    Raises:
        ValueError: Two keys have the same id (a chance of one in 4 million for 3 million keys).
    """
    hashes, rows = map_array(folder / "entity_ids.npy")
    own = rows >= 0  # the rest are other names
    first = np.empty(int(own.sum()), np.int64)
    first[rows[own]] = hashes[own]
    starts = np.searchsorted(keys.owners, keys.owners)
    further = [hash_id(f"{first[owner]} {i - starts[i]}") for i, owner in enumerate(keys.owners.tolist())]
    ids = np.concatenate([first, np.array(further, np.int64)])
    if len(np.unique(ids)) != len(ids):
        raise ValueError('two keys have the same id in the database; use another search.kind, such as "ivf-pq"')
    return ids


def _write(
    kind: str, connect: Connect, folder: Path, keys: Keys, queries: HeldOutQueries, index: Path, inputs: str, uri: str
) -> SearchRecord:
    """Uploads keys to a table of their own and returns the record of the entity index.

    Progress is recorded in `folder`, so that a killed upload resumes when it is repeated.

    Raises:
        OSError: The database cannot be reached or refuses a request.
    """
    table, ids, note = connect(uri, table_name(index, inputs)), key_ids(index, keys), folder / UPLOADED
    started = json.loads(note.read_bytes()) if note.exists() else None
    done = 0
    if started is None or started["uri"] != table.uri or not table.exists():
        table.create(keys.length)
    else:
        done = started["done"]
    with progress_bar(total=len(keys.rows), initial=done, desc="upload keys", unit="key") as bar:
        for start, block in keys.blocks(done):
            part = ids[keys.rows[start : start + len(block)]]
            if start == done and start:  # some of it may have arrived
                table.delete(part)
            table.add(part, block)
            write_whole(note, json.dumps({"uri": table.uri, "done": start + len(block)}).encode())
            bar.update(len(block))
    if (count := table.finish()) < len(keys.rows):
        note.unlink()
        raise OSError(f"{kind} {_lacks(table, count, keys)}; repeat the command to upload all keys again")
    _write_files(folder, keys, ids)
    (parameters, factor), recall = _tune(kind, table, folder, keys, queries)
    return SearchRecord(
        kind=kind,
        faiss="",
        parameters=parameters,
        rescored=factor,
        recall=None if recall is None else round(recall, 6),
        k=DEPTH,
        queries=queries.about,
        uri=table.uri,
        collection=table.name,
    )


def _update(
    connect: Connect, folder: Path, keys: Keys, old: Keys, old_folder: Path, changed: IntArray, record: SearchRecord
) -> SearchRecord:
    """Brings the table of an index up to date after changes and writes the files of the new version.

    Raises:
        OSError: The database cannot be reached or refuses a request; the old version still answers.
    """
    table, ids = connect(record.uri, record.collection), key_ids(folder, keys)
    gone = np.setdiff1d(key_ids(old_folder, old)[old.rows], ids[keys.rows])
    table.delete(np.concatenate([gone, ids[changed]]))
    for start, block in keys._replace(rows=changed).blocks():
        table.add(ids[changed[start : start + len(block)]], block)
    if (count := table.finish()) < len(keys.rows):
        raise OSError(f"{record.kind} {_lacks(table, count, keys)}; drop it and {REBUILD}")
    _write_files(folder, keys, ids)
    return record


def _lacks(table: KeyTable, count: int, keys: Keys) -> str:
    return f"at {table.uri}, {table.name}: has {count} of {len(keys.rows)} keys"


def _write_files(folder: Path, keys: Keys, ids: IntArray) -> None:
    """Writes `key_ids.npy`, int64 [2, keys], the sorted ids and the key of each, and `vectors.npy`."""
    order = np.argsort(ids[keys.rows])
    save_array(folder / KEY_IDS, np.stack([ids[keys.rows][order], keys.rows[order]]))
    write_key_vectors(folder, keys)


def _tune(kind: str, table: KeyTable, folder: Path, keys: Keys, queries: HeldOutQueries) -> tuple[Tuning, float | None]:
    """Returns the cheapest settings whose recall exceeds `TARGET` by `MARGIN`, or else the last, and their recall."""
    exact, length = ExactSearch(keys, queries.vectors, DEPTH), table.load()
    ids: IntArray = map_array(folder / KEY_IDS)
    for tuning in table.tunings():
        search = TableSearch(table, ids, length, tuning)
        recall = exact.recall(search)
        if recall is None or recall >= TARGET + MARGIN:
            break
    if recall is not None and recall < TARGET:
        logger.warning("recall@%d of %s is %.3f relative to exact search, below %.2f", DEPTH, kind, recall, TARGET)
    scores, rows = search.search(queries.vectors, DEPTH)
    for query, row, own in zip(queries.vectors.numpy(), rows, scores, strict=True):
        exact_scores = keys.read(row[row >= 0]) @ query
        if (difference := np.abs(exact_scores - own[row >= 0]).max(initial=0)) > _ROUNDED:
            logger.warning("scores of %s differ by up to %.4f from exact ones; its index rounds keys", kind, difference)
            break
    return tuning, recall
