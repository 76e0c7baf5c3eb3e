"""Digests of the content of files, which are read only once as long as they do not change."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from retriever.files import cache_folder

logger = logging.getLogger(__name__)

MISSING = b"missing"
"""The digest of a file that does not exist or cannot be read."""
_TABLE = "CREATE TABLE IF NOT EXISTS files (stamp BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID"
_AT_ONCE = 500
_SETTLED = 1_000_000_000
"""Nanoseconds after its last change from which a file is noted; before, it could change without another time."""


def digests_of(contents: Iterable[Path | bytes | None], cache: Path | None = None) -> Iterator[bytes]:
    """Yields the digest of each content: of the bytes, or of the file's; `MISSING` for `None` and unreadable files.

    A file that has the device, inode, size and times of one that was read before is not read again. Where the cache
    cannot be used, every file is read.

    Args:
        contents: Bytes, or the paths of files.
        cache: The file in which digests are kept; by default one in the cache folder for all commands of a user.
    """
    path = cache
    try:
        path = path or cache_folder() / "digests.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        logger.info("%s: cannot be used (%s); reading every file", path or "digests", error)
        db = sqlite3.connect(":memory:", isolation_level=None)
    with closing(db):
        waiting = iter(contents)
        while part := list(islice(waiting, _AT_ONCE)):
            yield from _part(db, path, part)


def _part(db: sqlite3.Connection, path: Path | None, contents: Sequence[Path | bytes | None]) -> Iterator[bytes]:
    stats = [_stat(one) if isinstance(one, Path) else None for one in contents]
    stamps = [None if status is None else _stamp(status) for status in stats]
    known: dict[bytes, bytes] = {}
    try:
        db.execute(_TABLE)
        asked = [stamp for stamp in stamps if stamp is not None]
        marks = ",".join("?" * len(asked))
        known.update(db.execute(f"SELECT stamp, digest FROM files WHERE stamp IN ({marks})", asked))
    except sqlite3.Error as error:
        logger.info("%s: cannot be read (%s); reading every file", path, error)
    new = dict[bytes, bytes]()
    before = time.time_ns() - _SETTLED
    for one, status, stamp in zip(contents, stats, stamps, strict=True):
        if isinstance(one, bytes):
            yield hashlib.blake2b(one, digest_size=16).digest()
        elif one is None or status is None or stamp is None:
            yield MISSING
        elif (found := known.get(stamp)) is not None:
            yield found
        else:
            digest = _read(one)
            if digest != MISSING and max(status.st_mtime_ns, status.st_ctime_ns) < before:
                new[stamp] = digest
            yield digest
    try:
        db.execute("BEGIN")
        db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", new.items())
        db.execute("COMMIT")
    except sqlite3.Error as error:
        logger.info("%s: cannot be written (%s)", path, error)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _stamp(status: os.stat_result) -> bytes:
    # The time of the last change of the inode, too: whoever writes a file can set the other one back, but not this.
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError:
        return MISSING
