"""Files that a reader sees whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Gives a temporary path to write to, which is renamed to `path` when the block ends.

    Readers see all of the file or the one before, even after a power cut. If the block raises, `path` stays as it was.

    Args:
        path: The file.
        temporary: The temporary path, on the same file system; by default `path` with `.partial` appended.
    """
    temporary = temporary or path.with_name(path.name + ".partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_with(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` make a file under a temporary path; see `replacing`."""
    with replacing(path) as partial:
        write(partial)


def write_whole(path: Path, content: bytes, temporary: Path | None = None) -> None:
    """Writes a file at once; see `replacing`."""
    with replacing(path, temporary) as partial:
        partial.write_bytes(content)


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Writes a JSON lines file, holding one row at a time in memory; see `replacing`."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.writelines(map(as_line, rows))


def as_line(row: Any) -> bytes:
    """Returns a value as one line of JSON, newline included."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
