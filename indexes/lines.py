"""Random access to JSON lines without loading the file: a `.jsonl` file with a file of line offsets next to it."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from indexes.growing import save_array
from retriever.arrays import map_array
from retriever.types import ArticleImage, Entity, IntArray, Section


def offsets_path(path: Path) -> Path:
    """Returns the path of the offsets of a JSON lines file: `entities.offsets.npy` for `entities.jsonl`."""
    return path.with_name(path.stem + ".offsets.npy")


def save_offsets(path: Path) -> None:
    """Writes the offsets of a JSON lines file: int64 [lines + 1], from 0 to the file's size."""
    with path.open("rb") as file:
        lengths = np.fromiter(map(len, file), dtype=np.int64)
    save_array(offsets_path(path), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]))


class Lines:
    """The rows of a JSON lines file, each read on demand; thread-safe.

    The file is not memory-mapped, because after a pass over all of it, it would count as memory of the process.

    Raises:
        ValueError: The offsets do not match the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: IntArray = map_array(offsets_path(path))
        size = path.stat().st_size
        if self._offsets[-1] != size:
            raise ValueError(f"{path}: {size} bytes, but its offsets end at {self._offsets[-1]}")
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        """Number of lines."""
        return len(self._offsets) - 1

    def read(self, row: int, parse: Callable[[bytes], Any] = json.loads) -> Any:
        """Returns the value in line `row`, as `parse` reads it.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"{self._path.name}: row must be within 0 to {len(self) - 1}, got {row}")
        start, end = int(self._offsets[row]), int(self._offsets[row + 1])
        return parse(os.pread(self._file, end - start, start))


class Articles(Sequence[Entity]):
    """The entities of an index's `entities.jsonl`, each read on demand."""

    def __init__(self, path: Path) -> None:
        self.path, self._lines = path, Lines(path)

    def __len__(self) -> int:
        """Number of entities."""
        return len(self._lines)

    @overload
    def __getitem__(self, row: int) -> Entity: ...
    @overload
    def __getitem__(self, row: slice) -> list[Entity]: ...
    def __getitem__(self, row: int | slice) -> Entity | list[Entity]:
        """Returns the entity at `row`, or the entities of a slice."""
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        return from_row(self._lines.read(row))

    def __iter__(self) -> Iterator[Entity]:
        """Yields the entities in order."""
        return (self[row] for row in range(len(self)))


def to_row(entity: Entity) -> dict[str, Any]:
    """Returns an entity as a row of `entities.jsonl`."""
    sections = [{"title": one.title, "text": one.text, "index": one.index} for one in entity.sections]
    others: dict[str, Any] = {"names": list(entity.names)} if entity.names else {}
    if entity.fields:
        others["fields"] = [list(pair) for pair in entity.fields]
    if entity.source:
        others["source"] = entity.source
    return {
        "id": entity.id,
        "title": entity.title,
        **others,
        "url": entity.url,
        "image": entity.image,
        "images": [{"url": one.url, "section": one.section, "caption": one.caption} for one in entity.images],
        "sections": sections,
    }


def from_row(row: dict[str, Any]) -> Entity:
    """Returns the entity that `to_row` wrote."""
    sections = tuple(Section(**section) for section in row["sections"])
    images = tuple(ArticleImage(**image) for image in row["images"])
    listed = {"names": tuple(row.get("names", ())), "fields": tuple(map(tuple, row.get("fields", ())))}
    return Entity(**row | {"sections": sections, "images": images, **listed})
