"""Full-text search over the sections of an index, for questions without an image: SQLite's FTS5, ranked by its BM25."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from itertools import count

from retriever.protocols import EntityIndex

TITLE_WEIGHT, SECTION_WEIGHT, TEXT_WEIGHT = 6.0, 2.0, 1.0


class FullText:
    """Sections and titles of an index, read once at the first search and kept in memory.

    Meant for up to some 100,000 articles; it needs about as much memory as their text.

    Args:
        index: The index.
    """

    def __init__(self, index: EntityIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._tables: sqlite3.Connection | None = None

    def search(self, query: str, k: int) -> list[tuple[int, int]]:
        """Finds the sections that fit a query, best first: rows of entities with positions in `Entity.sections`."""
        words = re.findall(r"\w+", query)[:64]
        if not words:
            return []
        matching = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            return self._opened().execute(
                "SELECT entity, position FROM sections JOIN places ON places.id = sections.rowid "
                "WHERE sections MATCH ? ORDER BY bm25(sections, ?, ?, ?), places.id LIMIT ?",
                (matching, TITLE_WEIGHT, SECTION_WEIGHT, TEXT_WEIGHT, k),
            ).fetchall()  # fmt: skip

    def row_of_name(self, name: str) -> int | None:
        """Returns the row of the entity with a title or URL, in any case; `None` without one."""
        with self._lock:
            found = self._opened().execute("SELECT entity FROM names WHERE name = ?", (_plain(name),)).fetchone()
        return None if found is None else int(found[0])

    def _opened(self) -> sqlite3.Connection:
        if self._tables is None:
            tables = sqlite3.connect(":memory:", check_same_thread=False)
            tables.execute(
                "CREATE VIRTUAL TABLE sections USING fts5"
                "(title, section, text, content='', tokenize='porter unicode61 remove_diacritics 2')"
            )
            tables.execute("CREATE TABLE places (id INTEGER PRIMARY KEY, entity INTEGER, position INTEGER)")
            tables.execute("CREATE TABLE names (name TEXT PRIMARY KEY, entity INTEGER) WITHOUT ROWID")
            numbers = count(1)
            for row in range(len(self._index)):
                entity = self._index.entity(row)
                names = dict.fromkeys(map(_plain, (entity.title, entity.url, *entity.names)))
                names.pop("", None)
                tables.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", [(name, row) for name in names])
                for number, (position, section) in zip(numbers, enumerate(entity.sections), strict=False):
                    tables.execute("INSERT INTO places VALUES (?, ?, ?)", (number, row, position))
                    tables.execute(
                        "INSERT INTO sections (rowid, title, section, text) VALUES (?, ?, ?, ?)",
                        (number, entity.title, section.title, section.text),
                    )
            self._tables = tables
        return self._tables


def entities_of(places: list[tuple[int, int]]) -> Iterator[int]:
    """Yields the rows of entities in the order in which they first occur."""
    yield from dict.fromkeys(row for row, _ in places)


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
