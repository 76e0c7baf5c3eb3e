"""The files of a part: an index of some entities of a whole, with a note of which part of what it is."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from indexes.ids import hash_id
from indexes.store.manifest import RECOGNITION, read_manifest
from retriever.files import read_object, write_json
from retriever.types import IntArray

NOTE = "part.json"
"""Says which part it is; written last."""
WHOLE = "whole.json"
"""The manifest of the whole index."""
POSITIONS = "positions.npy"
"""The position of each entity in the whole index, ascending, int64; a compaction writes new ones with its files."""
_NAME = re.compile(r"(\d+)-of-(\d+)")


class Part(NamedTuple):
    """Which part of an index a folder holds.

    Attributes:
        number: Its number, from 1.
        of: The number of parts.
        whole: A hash of the whole index's manifest: parts with different ones do not belong together.
    """

    number: int
    of: int
    whole: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number}-of-{self.of}"

    def __str__(self) -> str:
        """Returns a message like "part 1 of 2"."""
        return f"part {self.number} of {self.of}"


def part_of(entity_id: str, parts: int) -> int:
    """Returns the number of the part, from 0, that an entity belongs to."""
    return hash_id(entity_id) % parts


def read_part(folder: Path) -> Part | None:
    """Returns which part a folder holds; `None` if it is none.

    Raises:
        ValueError: The note is damaged.
    """
    path = folder / NOTE
    return Part(**read_object(path)) if path.is_file() else None


def write_part(folder: Path, part: Part, positions: IntArray, whole: bytes, recognition: bytes) -> None:
    """Writes the files that make the index in a folder a part."""
    np.save(folder / POSITIONS, positions)
    (folder / WHOLE).write_bytes(whole)
    if recognition:
        (folder / RECOGNITION).write_bytes(recognition)
    write_json(folder / NOTE, part._asdict())


def positions_after(old: IntArray, rows: Iterable[int | None], folder: Path) -> IntArray:
    """Returns the positions of a part's entities after changes; new ones follow all that the whole index had.

    Args:
        old: Those before.
        rows: The rows that the entities had before; `None` for new ones.
        folder: The folder of the part.
    """
    part, entities = read_part(folder), read_manifest(folder, WHOLE).counts.entities
    assert part is not None
    last = int(old[-1]) if len(old) else -1
    free = itertools.count(entities + part.number - 1 if last < entities else last + part.of, part.of)
    return np.array([next(free) if row is None else old[row] for row in rows], np.int64)


def content_of(path: Path) -> bytes:
    """Returns the content of a file, empty if there is none."""
    return path.read_bytes() if path.is_file() else b""


def fingerprint_of(manifest: bytes) -> str:
    """Returns the hash of a manifest that `Part.whole` has."""
    return hashlib.sha256(manifest).hexdigest()


def parts_in(folder: Path) -> list[Path]:
    """Returns the folders of parts in a folder, by their numbers; none if it has no parts.

    Raises:
        ValueError: Parts are missing, or belong to different indexes.
    """
    notes = {path: read_part(path) for path in sorted(folder.glob("*-of-*")) if _NAME.fullmatch(path.name)}
    parts = sorted((part, path) for path, part in notes.items() if part is not None)
    if not parts:
        return []
    of, whole = parts[0][0].of, parts[0][0].whole
    if [part for part, _ in parts] != [Part(number, of, whole) for number in range(1, of + 1)]:
        names = ", ".join(path.name for _, path in parts)
        raise ValueError(f"{folder}: needs all parts of one index, has {names}; remove those of others, or split again")
    return [path for _, path in parts]
