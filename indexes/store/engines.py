"""Vector databases that can hold the keys of an index, instead of files of FAISS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from indexes.store.manifest import FAISS_KINDS, SearchRecord
from retriever.entry_points import named, names
from retriever.types import BoolArray, FloatArray, IntArray

_OURS = {"milvus": "indexes.store.search_milvus:MILVUS", "lancedb": "indexes.store.search_lancedb:LANCEDB"}
UPLOADED = "uploaded.json"  # says beside new files how many of their keys a database has


class Search(Protocol):
    """Finds the vectors with the largest inner products."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their length."""

    def search(self, vectors: torch.Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products float32 and rows int64, both [B, k], best first, padded with -inf and -1.

        Args:
            vectors: What to search for, [B, length].
            k: Number of results.
            among: Which rows may be found; by default all.
        """


class KeySearch(Search, Protocol):
    """A search that can also return what it searches."""

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the vectors of some rows, [len(rows), length]."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A vector database; `indexes.store.key_tables` makes one of a class for its tables.

    Attributes:
        write: Uploads keys and returns how to search them, given the folder to write to, the keys, held-out queries,
            the folder with the ids of the entities, what the index was built from, and the server's address.
        update: Brings the database up to date, given the folder to write to, all keys, those of the old version and its
            folder, the numbers of new and changed keys, and how the old version is searched.
        open: Opens the folder of an index for search.
        table: Connects to a table of keys, given an address and its name.
    """

    write: Callable[..., SearchRecord]
    update: Callable[..., SearchRecord]
    open: Callable[[Path, SearchRecord], KeySearch]
    table: Callable[[str, str], Any]


def find_engine(kind: str) -> Engine | None:
    """Returns the vector database of a kind of entity index; `None` if FAISS searches it.

    Raises:
        ValueError: It is unknown or cannot be loaded; the message says why.
    """
    return None if kind in FAISS_KINDS else named("omgm.engines", kind, _OURS, Engine)


def kinds() -> tuple[str, ...]:
    """Returns the names of all kinds of entity index, those of other packages last."""
    return (*FAISS_KINDS, *names("omgm.engines", _OURS))
