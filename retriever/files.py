"""Reads and checks whole files, and writes them atomically: under a temporary name that is then renamed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Returns `omgm` in the user's cache folder; raises an OSError if there is neither a home nor XDG_CACHE_HOME."""
    cached = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if cached.startswith("~"):  # in containers whose user has no name
        raise OSError("this user has no home to keep files in; set XDG_CACHE_HOME to a folder that can be written")
    return Path(cached) / "omgm"


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object that a file holds.

    Raises:
        ValueError: The file is not UTF-8 JSON, or its value is not an object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); write or download it again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(found).__name__}; write or download it again")
    return found


@contextmanager
def replacing(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Yields a temporary path to write to and renames it to `path` at the end of the block.

    Readers see either the old file or all of the new one, even after a power cut. If the block raises, `path` is left
    unchanged.

    Args:
        path: The file to replace or create.
        temporary: The temporary path, on the same file system; by default `path` with `.partial` appended.
    """
    temporary = temporary or path.with_name(path.name + ".partial")
    try:
        with naming(path):
            yield temporary
            apply_umask(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds a file's name to OS errors raised in the block: "No space left on device" does not say where."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def apply_umask(path: Path) -> None:
    """Gives a private file the default permissions: safetensors writes files that only their owner can read."""
    if path.stat().st_mode & 0o077:
        return
    # `os.umask` can only be read by setting it, which would briefly change it for every thread.
    probe = path.with_name(path.name + ".probe")
    probe.touch()
    mode = probe.stat().st_mode
    probe.unlink()
    path.chmod(mode)


def replace_with(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with a temporary path, which then replaces `path`; see `replacing`."""
    with replacing(path) as partial:
        write(partial)


def write_whole(path: Path, content: bytes, temporary: Path | None = None) -> None:
    """Writes a file atomically; see `replacing`."""
    with replacing(path, temporary) as partial:
        partial.write_bytes(content)


def write_json(path: Path, value: object) -> None:
    """Writes a value as indented JSON, atomically; see `replacing`."""
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n")


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Writes a JSON lines file atomically, with one row in memory at a time; see `replacing`."""
    with replacing(path) as partial, partial.open("wb") as file:
        file.writelines(map(as_line, rows))


def as_line(row: Any) -> bytes:
    """Encodes a value as one line of JSON, newline included."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
