"""Files that a reader sees whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_with(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` make a file under a temporary name, then gives it its own: readers see all of it or none of it."""
    partial = path.with_name(path.name + ".partial")
    write(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that readers see all of it or none of it, even after a power cut."""
    replace_with(path, lambda partial: partial.write_bytes(content))


def as_line(row: Any) -> bytes:
    """Returns a value as one line of JSON, newline included."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
