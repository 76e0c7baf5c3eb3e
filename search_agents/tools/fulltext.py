"""Full-text search over the sections of an index, for questions without an image: SQLite's FTS5, ranked by its BM25."""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from retriever.asking import EntityIndex
from retriever.filters import SCOPE, fits
from retriever.lexical import MARKS
from retriever.types import Entity
from retriever.unspaced import UNSPACED

_JOINED = re.compile(f"[{UNSPACED}\uac00-\ud7a3]")
_RUN = re.compile(f"({_JOINED.pattern}+)")
_WORD = re.compile(rf"[\w{MARKS}]+")
_NAMED = 20
"""Sections of one of which the entity must be that has a name."""
MOST_WORDS = 64
"""Terms of a query that count."""
TITLE_WEIGHT, SECTION_WEIGHT, TEXT_WEIGHT = 6.0, 2.0, 1.0


@runtime_checkable
class ChangingIndex(Protocol):
    """An optional extension of an index that changes while it is searched: each change is a new version."""

    @property
    def version(self) -> object:
        """The newest version that this process has read."""

    def is_behind(self) -> bool:
        """Returns whether another process has written a newer one."""

    def pinned(self) -> AbstractContextManager[object]:
        """Pins a version for this thread until the end of the block, and yields it."""

    def rows(self) -> Iterable[int]:
        """Returns the rows of the pinned version."""


@dataclass(frozen=True, slots=True)
class Place:
    """A section: the row of its entity, the entity, and the section's position in it."""

    row: int
    entity: Entity
    position: int


class FullText:
    """An in-memory full-text index of sections and titles, built at the first search and updated before each one.

    Meant for up to some 100,000 articles; it needs about as much memory as their text.
    """

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        # Weak references, because a version keeps the files of its generation alive.
        self._seen: weakref.ref[object] | None = None
        self._read: weakref.ref[object] | None = None
        self._changes = 0
        self._tables: sqlite3.Connection | None = None
        self._close: weakref.finalize[[], FullText] | None = None
        self._rows: set[int] = set()

    @property
    def changes(self) -> int:
        """The number of changes of the index noticed so far; results from before the last one are stale.

        This runs in the event loop, so it leaves reading the changes of other processes to the next search.
        """
        index = self._index
        version = index.version if isinstance(index, ChangingIndex) else index
        behind = isinstance(index, ChangingIndex) and index.is_behind()
        if self._seen is None or version is not self._seen() or behind:
            self._changes += self._seen is not None
            self._seen = weakref.ref(version)
        return self._changes

    def search(self, query: str, k: int) -> list[Place]:
        """Finds the `k` best sections for a query that the caller may see, best first."""
        words = list(dict.fromkeys(_terms(query)))[:MOST_WORDS]
        if not words:
            return []
        # A single character is the beginning of a pair, or the last one of its run.
        matching = " OR ".join(f'"{word}"*' if _JOINED.fullmatch(word) else f'"{word}"' for word in words)
        scope = SCOPE.get()
        with self._lock, self._pinned() as version:
            found = self._current(version).execute(
                "SELECT entity, position FROM sections JOIN places ON places.id = sections.rowid "
                "WHERE sections MATCH ? ORDER BY bm25(sections, ?, ?, ?), places.id LIMIT ?",
                (matching, TITLE_WEIGHT, SECTION_WEIGHT, TEXT_WEIGHT, -1 if scope else k),
            )  # fmt: skip
            places = (Place(row, self._index.entity(row), position) for row, position in found)
            return list(islice((place for place in places if fits(place.entity, scope)), k))

    def row_of_name(self, name: str) -> int | None:
        """Returns the row of the entity with a title or URL (case-insensitive), or `None` if there is none."""
        with self._lock, self._pinned() as version:
            query = "SELECT entity FROM names WHERE name = ? ORDER BY entity"
            rows = self._current(version).execute(query, (_plain(name),)).fetchall()
            return next((int(row) for [row] in rows if self._is_seen(row)), None)

    def entity_of(self, name: str) -> Entity | None:
        """Returns the entity with an id, a title or a URL, or `None` if there is none."""
        with self._pinned():
            row = self._index.row_of(name)
            row = self.row_of_name(name) if row is None or not self._is_seen(row) else row
            return None if row is None else self._index.entity(row)

    def _is_seen(self, row: int) -> bool:
        return fits(self._index.entity(row), SCOPE.get())

    @contextmanager
    def _pinned(self) -> Iterator[object]:
        """Pins a version of the index for this thread until the end of the block, and yields it."""
        with self._index.pinned() if isinstance(self._index, ChangingIndex) else nullcontext(self._index) as version:
            yield version

    def _current(self, version: object) -> sqlite3.Connection:
        """Returns the tables, updated to a version that this thread has pinned."""
        if self._tables is not None and self._read is not None and version is self._read():
            return self._tables
        index = self._index
        rows = set(index.rows() if isinstance(index, ChangingIndex) else range(len(index)))
        gone = self._rows - rows
        if self._tables is None or len(gone) > len(rows) // 2:  # a compaction renumbers all rows
            if self._close is not None:
                self._close()
            self._tables, self._rows, gone = _tables(), set(), set()
            self._close = weakref.finalize(self, self._tables.close)
        self._tables.executemany("DELETE FROM places WHERE entity = ?", ((row,) for row in gone))
        self._tables.executemany("DELETE FROM names WHERE entity = ?", ((row,) for row in gone))
        self._add(self._tables, sorted(rows - self._rows))
        self._rows, self._read = rows, weakref.ref(version)
        return self._tables

    def _add(self, tables: sqlite3.Connection, rows: Iterable[int]) -> None:
        [number] = tables.execute("SELECT COALESCE(MAX(rowid), 0) FROM sections").fetchone()
        for row in rows:
            entity = self._index.entity(row)
            names = dict.fromkeys(map(_plain, (entity.title, entity.url, *entity.names)))
            names.pop("", None)
            tables.executemany("INSERT INTO names VALUES (?, ?)", [(name, row) for name in names])
            for position, section in enumerate(entity.sections):
                number += 1
                tables.execute("INSERT INTO places VALUES (?, ?, ?)", (number, row, position))
                tables.execute(
                    "INSERT INTO sections (rowid, title, section, text) VALUES (?, ?, ?, ?)",
                    (number, *map(_indexed, (entity.title, section.title, section.text))),
                )


class StoredText:
    """Full-text search by the words that an index in parts stores of its sections; its articles are elsewhere."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @property
    def changes(self) -> int:
        """As in `FullText`."""
        return int(self._index.parts.changes)

    def search(self, query: str, k: int) -> list[Place]:
        """Finds the `k` best sections for a query that the caller may see, best first."""
        found: list[Place] = self._index.retried(lambda _: self._best(query, k))
        return found

    def _best(self, query: str, k: int) -> list[Place]:
        matches = self._index.sections.search(query, None, (), SCOPE.get())
        best = sorted(matches, key=lambda match: -(match.words or 0.0) - match.name)[:k]
        return [Place(match.row, self._index.entity(match.row), match.position) for match in best]

    def row_of_name(self, name: str) -> int | None:
        """Returns the row of the entity with a title or URL (case-insensitive), or `None` if there is none."""
        for place in self.search(name, _NAMED):
            if _plain(name) in map(_plain, (place.entity.title, place.entity.url, *place.entity.names)):
                return place.row
        return None

    def entity_of(self, name: str) -> Entity | None:
        """Returns the entity with an id, a title or a URL, or `None` if there is none."""
        row: int | None = self._index.row_of(name)
        if row is None or not fits(self._index.entity(row), SCOPE.get()):
            row = self.row_of_name(name)
        found: Entity | None = None if row is None else self._index.entity(row)
        return found


def full_text(index: EntityIndex) -> FullText | StoredText:
    """Returns the full-text search of an index."""
    return StoredText(index) if hasattr(index, "sections") else FullText(index)


def _tables() -> sqlite3.Connection:
    """Returns empty tables. FTS5 stores no texts, so sections cannot be deleted from it, only from `places`."""
    tables = sqlite3.connect(":memory:", check_same_thread=False)
    tables.execute(
        "CREATE VIRTUAL TABLE sections USING fts5"
        "(title, section, text, content='', "
        "tokenize=\"porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\")"
    )
    tables.execute("CREATE TABLE places (id INTEGER PRIMARY KEY, entity INTEGER, position INTEGER)")
    tables.execute("CREATE INDEX entities ON places (entity)")
    tables.execute("CREATE TABLE names (name TEXT, entity INTEGER, PRIMARY KEY (name, entity)) WITHOUT ROWID")
    tables.execute("CREATE INDEX owners ON names (entity)")
    return tables


def _indexed(text: str) -> str:
    """Returns a text as FTS5 indexes it: with spaces between the terms of joined words."""
    return text if _JOINED.search(text) is None else " ".join(_terms(text, True))


def _terms(text: str, indexed: bool = False) -> Iterator[str]:
    """Yields the terms of a text: its words, and pairs of characters where a script or its particles join words.

    Args:
        text: The text.
        indexed: Whether also to yield the last character of each run, which begins no pair.
    """
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        for part in filter(None, _RUN.split(word)):
            if _JOINED.match(part) is None:
                yield part
                continue
            yield from (part[at : at + 2] for at in range(max(len(part) - 1, 1)))
            if indexed and len(part) > 1:
                yield part[-1]


def entities_of(places: Iterable[Place]) -> Iterator[tuple[int, Entity]]:
    """Yields the distinct entities with their rows, in order of first occurrence."""
    yield from {place.row: place.entity for place in places}.items()


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
