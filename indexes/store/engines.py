"""Vector databases that can hold the keys of an index, instead of files of FAISS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indexes.store.manifest import FAISS_KINDS, SearchRecord
from retriever.entry_points import named, names
from retriever.types import IntArray

if TYPE_CHECKING:
    from indexes.store.keys import Keys
    from indexes.store.recall import HeldOutQueries
    from indexes.store.search import KeySearch

_OURS = {"milvus": "indexes.store.search_milvus:MILVUS", "lancedb": "indexes.store.search_lancedb:LANCEDB"}


@dataclass(frozen=True, slots=True)
class Engine:
    """A vector database; `indexes.store.key_tables` makes one of a class for its tables.

    Attributes:
        write: Uploads keys and returns how to search them, given the folder to write to, the keys, held-out queries,
            the folder with the ids of the entities, what the index was built from, and the server's address.
        update: Brings the database up to date, given the folder to write to, all keys, those of the old version and its
            folder, the numbers of new and changed keys, and how the old version is searched.
        open: Opens the folder of an index for search.
    """

    write: Callable[[Path, Keys, HeldOutQueries, Path, str, str], SearchRecord]
    update: Callable[[Path, Keys, Keys, Path, IntArray, SearchRecord], SearchRecord]
    open: Callable[[Path, SearchRecord], KeySearch]


def find_engine(kind: str) -> Engine | None:
    """Returns the vector database of a kind of entity index; `None` if FAISS searches it.

    Raises:
        ValueError: It is unknown or cannot be loaded; the message says why.
    """
    return None if kind in FAISS_KINDS else named("omgm.engines", kind, _OURS, Engine)


def kinds() -> tuple[str, ...]:
    """Returns the names of all kinds of entity index, those of other packages last."""
    return (*FAISS_KINDS, *names("omgm.engines", _OURS))
