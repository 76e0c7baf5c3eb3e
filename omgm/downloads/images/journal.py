"""The state of every image of a folder, in an SQLite file: memory use stays constant and a kill loses little."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from omgm.downloads.images.reasons import ASKED_AGAIN, Failure

FOLDER = ".omgm"
"""The subfolder of the image folder for the journal, the reports and unfinished files."""

_BATCH = 64
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS pictures (
        id INTEGER PRIMARY KEY,         -- the knowledge base's order
        url TEXT UNIQUE NOT NULL,
        host TEXT NOT NULL,
        name TEXT UNIQUE,               -- its place under the folder; NULL if it has none
        state TEXT NOT NULL,            -- wanted, here (not fetched by us), done, failed
        reason TEXT, detail TEXT,       -- of a failure
        sha BLOB, bytes INTEGER,        -- of what was sent
        stored INTEGER,                 -- bytes of the file
        run INTEGER NOT NULL,           -- the last run whose knowledge base names it
        entities INTEGER NOT NULL       -- how many entities of that run have it as their main image
    )""",
    "CREATE INDEX IF NOT EXISTS wanted ON pictures (host, id) WHERE state = 'wanted'",
    "CREATE INDEX IF NOT EXISTS contents ON pictures (sha) WHERE state = 'done'",
)


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image to fetch: its row, its URL, and its place under the folder."""

    id: int
    url: str
    name: str


class Journal:
    """The journal of a folder, used by one process at a time. Open it with `with`.

    Args:
        images: The folder of the images; created if absent.
        settings: The settings that the files depend on; all images of a folder share them.

    Raises:
        ValueError: Another process is using the folder, or it was filled with other settings.
    """

    def __init__(self, images: Path, settings: dict[str, Any]) -> None:
        self.folder = images / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "journal.sqlite"
        self._db = sqlite3.connect(path, timeout=0.2)
        self._uncommitted = 0
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN EXCLUSIVE")
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._check(settings)
        except sqlite3.DatabaseError as error:
            self._db.close()
            if "locked" in str(error):
                raise ValueError(f"{path}: another process is using this folder; wait for it") from error
            advice = "delete that file; images that were fetched are kept as they are"
            raise ValueError(f"{path}: {error}; {advice}") from error
        except ValueError:
            self._db.close()
            raise
        self.run = 1 + int(self._one("SELECT coalesce(max(run), 0) FROM pictures"))
        self.commit()

    def _check(self, settings: dict[str, Any]) -> None:
        for key, value in settings.items():
            given = json.dumps(value)
            self._db.execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (key, given))
            held = self._one("SELECT value FROM settings WHERE key = ?", key)
            if held != given:
                raise ValueError(
                    f"{self.folder}: its images were fetched with {key} {held}, not {given}; use the same setting or "
                    "another folder"
                )

    def state(self, url: str) -> tuple[int, str, str | None] | None:
        """Returns the row, state and name of an image, or `None` for a new one."""
        row: tuple[int, str, str | None] | None = self._db.execute(
            "SELECT id, state, name FROM pictures WHERE url = ?", (url,)
        ).fetchone()
        return row

    def ours(self, name: str) -> bool:
        """Returns whether the file at this place is ours, even if its download was not recorded."""
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM pictures WHERE name = ? AND state != 'here')", name))

    def clashes(self, name: str) -> str | None:
        """Returns the URL whose place is the same, a parent or a child of this one, or `None` if it is free."""
        parts = name.split("/")
        taken = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        query = (
            f"SELECT url FROM pictures WHERE name IN ({','.join('?' * len(taken))}) OR name > ? AND name < ? LIMIT 1"
        )
        row = self._db.execute(query, (*taken, f"{name}/", f"{name}0")).fetchone()  # "0" comes after "/"
        return str(row[0]) if row else None

    def add(self, url: str, host: str, name: str | None, state: str, failure: Failure | None = None) -> int:
        """Adds a new image and returns its row."""
        reason, detail = (failure.name, failure.detail) if failure else (None, None)
        cursor = self._db.execute(
            "INSERT INTO pictures (url, host, name, state, reason, detail, run, entities) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (url, host, name, state, reason, detail, self.run),
        )
        return int(cursor.lastrowid or 0)

    def want(self, row: int) -> None:
        """Marks an image to be fetched again because its file is gone."""
        self._db.execute("UPDATE pictures SET state = 'wanted', reason = NULL, detail = NULL WHERE id = ?", (row,))

    def name_in_run(self, row: int, main: bool) -> None:
        """Records that this run's knowledge base names an image, as an entity's main image or as another."""
        self._db.execute(
            "UPDATE pictures SET entities = iif(run = :run, entities, 0) + :main, run = :run WHERE id = :id",
            {"run": self.run, "main": int(main), "id": row},
        )

    def ask_again(self, every: bool) -> None:
        """Marks failed images of this run to be fetched again: those with temporary failures, or all."""
        marks = ",".join("?" * len(ASKED_AGAIN))
        self._db.execute(
            "UPDATE pictures SET state = 'wanted', reason = NULL, detail = NULL "
            f"WHERE state = 'failed' AND name NOT NULL AND run = ? AND (? OR reason IN ({marks}))",
            (self.run, every, *ASKED_AGAIN),
        )
        self.commit()

    def hosts(self) -> list[str]:
        """Returns the hosts with images to fetch, most images first."""
        query = (
            "SELECT host FROM pictures WHERE state = 'wanted' AND run = ? GROUP BY host ORDER BY count(*) DESC, host"
        )
        return [str(row[0]) for row in self._db.execute(query, (self.run,))]

    def wanted(self, host: str) -> Iterator[WantedImage]:
        """Yields the images to fetch from a host, in order, each once."""
        query = (
            "SELECT id, url, name FROM pictures WHERE state = 'wanted' AND host = ? AND id > ? AND run = ? ORDER BY id "
            "LIMIT 256"
        )
        last = 0
        while rows := self._db.execute(query, (host, last, self.run)).fetchall():
            yield from (WantedImage(*row) for row in rows)
            last = rows[-1][0]

    def same(self, sha: bytes) -> tuple[str, int] | None:
        """Returns the place and size of a stored image whose original bytes have this SHA-256."""
        row: tuple[str, int] | None = self._db.execute(
            "SELECT name, stored FROM pictures WHERE sha = ? AND state = 'done' ORDER BY id LIMIT 1", (sha,)
        ).fetchone()
        return row

    def done(self, image: WantedImage, sha: bytes, size: int, stored: int) -> None:
        """Records that an image is stored in its place."""
        self._finish("state = 'done', sha = ?, bytes = ?, stored = ?", image, sha, size, stored)

    def failed(self, image: WantedImage, failure: Failure) -> None:
        """Records that an image could not be fetched."""
        self._finish("state = 'failed', reason = ?, detail = ?", image, failure.name, failure.detail[:300])

    def give_up(self, host: str, detail: str) -> int:
        """Records that a host is given up in this run, and returns how many of its images that skips."""
        cursor = self._db.execute(
            "UPDATE pictures SET state = 'failed', reason = 'host_given_up', detail = ? WHERE state = 'wanted' AND "
            "host = ? AND run = ?",
            (detail[:300], host, self.run),
        )
        self.commit()
        return cursor.rowcount

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query."""
        yield from self._db.execute(query, values)

    def commit(self) -> None:
        """Waits until everything recorded is on disk."""
        self._db.commit()
        self._uncommitted = 0

    def _finish(self, change: str, image: WantedImage, *values: Any) -> None:
        self._db.execute(f"UPDATE pictures SET {change} WHERE id = ?", (*values, image.id))
        self._uncommitted += 1
        if self._uncommitted >= _BATCH:
            self.commit()

    def _one(self, query: str, *values: Any) -> Any:
        return self._db.execute(query, values).fetchone()[0]

    def __enter__(self) -> Self:
        """Returns the journal, which is closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Commits and unlocks the folder."""
        self.commit()
        self._db.close()


def unfinished(folder: Path) -> Path:
    """Returns an empty folder for unfinished files, on the same file system as the images."""
    temporary = folder / "partial"
    temporary.mkdir(exist_ok=True)
    for left in os.scandir(temporary):  # of a killed run
        os.unlink(left)
    return temporary
