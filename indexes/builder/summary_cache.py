"""A cache of a chat model's summaries by request, so that no build requests the same summary twice."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retriever.files import as_line, cache_folder

_FORMAT = 1
"""The file's `user_version`; 0 is a new file."""
_WAIT = 30.0
"""Seconds to wait for another process that is writing."""


def default_cache() -> Path:
    """Returns the file that all builds of a user share: `omgm/summaries.sqlite` in the user's cache folder."""
    return cache_folder() / "summaries.sqlite"


def question_hash(*question: Any) -> bytes:
    """Returns a hash of what determines a model's answer: its name and settings, the messages, and who serves it."""
    return hashlib.sha256(as_line(question)).digest()


class SummaryCache:
    """Summaries in an SQLite file, which any number of processes on one machine may share.

    The file is created with the first summary. A kill loses nothing; a power cut loses at most the latest summaries.

    Args:
        path: The file.

    Attributes:
        read_only: Whether `put` does nothing; used for estimates, which must not affect later ones.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.read_only = path, False
        self._db: sqlite3.Connection | None = None

    def get(self, question: bytes) -> str | None:
        """Returns the cached answer to a question, or `None`.

        Raises:
            ValueError: The file cannot be read.
        """
        if self._db is None and not self.path.exists():
            return None
        rows = self._run("SELECT summary FROM summaries WHERE question = ?", (question,))
        return str(rows[0][0]) if rows else None

    def put(self, question: bytes, model: str, summary: str) -> None:
        """Stores the answer to a question.

        Raises:
            ValueError: The file cannot be written.
        """
        if not self.read_only:
            self._run("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?)", (question, model, summary))

    def close(self) -> None:
        """Closes the file; it is reopened when needed."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _run(self, statement: str, values: Sequence[Any]) -> list[Any]:
        with self._explained():
            self._db = self._db or self._opened_in_time()
            return self._db.execute(statement, values).fetchall()

    def _opened_in_time(self) -> sqlite3.Connection:
        """Opens the file; while another process creates it, SQLite may report immediately that it is locked."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                return self._opened()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def _opened(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Each statement is a transaction. Threads take turns, but need not be the one that opened the file.
        db = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _FORMAT):
                raise sqlite3.DatabaseError(f"has format {version}, this release reads {_FORMAT}")
            db.execute("PRAGMA synchronous = NORMAL")
            if not version:  # otherwise nothing is written, and readers need not wait
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS summaries "
                    "(question BLOB PRIMARY KEY, model TEXT NOT NULL, summary TEXT NOT NULL) WITHOUT ROWID"
                )
                db.execute(f"PRAGMA user_version = {_FORMAT}")
        except sqlite3.Error:
            db.close()
            raise
        return db

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise ValueError(
                f"{self.path}: cannot use the summary cache ({error}); delete it, or set summarizer.cache to another "
                'file or to "none"'
            ) from error
