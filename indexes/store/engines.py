"""Vector databases that can hold the keys of an index, instead of files of FAISS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from indexes.store.keys import Keys
from indexes.store.manifest import SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import Search
from retriever.entry_points import named
from retriever.types import IntArray

_OURS = {"milvus": "indexes.store.search_milvus:MILVUS"}


@dataclass(frozen=True, slots=True)
class Engine:
    """A vector database.

    Attributes:
        write: Uploads keys and returns how to search them, given the folder to write to, the keys, held-out queries,
            the folder with the ids of the entities, what the index was built from, and the server's address.
        update: Brings the database up to date, given the folder to write to, all keys, those of the old version and its
            folder, the numbers of new and changed keys, and how the old version is searched.
        open: Opens the folder of an index for search.
    """

    write: Callable[[Path, Keys, HeldOutQueries, Path, str, str], SearchRecord]
    update: Callable[[Path, Keys, Keys, Path, IntArray, SearchRecord], SearchRecord]
    open: Callable[[Path, SearchRecord], Search]


def find_engine(kind: str) -> Engine | None:
    """Returns the vector database of a kind of entity index; `None` if FAISS searches it.

    Raises:
        ValueError: It cannot be loaded; the message says why.
    """
    return named("omgm.engines", kind, _OURS, Engine) if kind in _OURS else None
