"""Columns of an index: what it stores of each entity beside its keys and tokens, written in batches, read on demand.

A package adds one with a single file and an entry point in the group `omgm.columns`; builds, live changes, compaction
and the checks of an index treat all columns alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexes.growing import GrowingRows
from indexes.store.layout import REBUILD
from indexes.store.manifest import ALL_FILES, Manifest
from indexes.store.row_file import RowFile, read_spans
from retriever.arrays import map_array
from retriever.entry_points import declared
from retriever.files import write_whole
from retriever.types import Entity, IntArray

GROUP = "omgm.columns"
MAIN = 0
"""The part of an entity that is its main image, in a column of pictures."""
SPREAD = 1 << 24
"""Parts reserved per entity: rows of part p of the entity at row r have the key `r * SPREAD + p`."""


class Encoded(NamedTuple):
    """The rows of an entity in a column, or of several entities.

    Attributes:
        values: The rows, [N, width].
        parts: Which part of the entity each row is of, such as a section, ascending, int64 [N]; in a file, its key.
    """

    values: NDArray[Any]
    parts: IntArray

    def split(self, parts: int) -> list[NDArray[Any]]:
        """Returns the rows of each part of an entity."""
        return np.split(self.values, np.searchsorted(self.parts, np.arange(1, parts))) if parts else []


class Stored(NamedTuple):
    """What a column's rows are computed from.

    Attributes:
        entity: The article.
        thumbnail: JPEG of its main image, for columns of images; empty without one.
        pictures: Its searched images by their parts (`picture_part`), for columns of pictures.
        main: The part that the main image has by its URL; `MAIN` if no image of the article has its URL.
    """

    entity: Entity
    thumbnail: bytes = b""
    pictures: Mapping[int, Image.Image] = {}
    main: int = MAIN


def picture_part(url: str) -> int:
    """Returns the part of an entity that is a further image; the same for as long as the entity names it."""
    return zlib.crc32(url.encode()) % (SPREAD - 1) + 1


class ColumnModel(Protocol):
    """Computes a column."""

    @property
    def dimension(self) -> int:
        """The width of a row."""

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings: models with the same fingerprint compute the same rows."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an index.

    Attributes:
        name: Its name in the manifest and in messages.
        of: What a row is of. For those of images, thumbnails are read, and for those of pictures all searched images.
        dtype: The type of its values.
        encode: Computes the rows of entities; called with the column's model, by one thread.
        files: The names of the files of its values and of their parts, and of those that `finish` writes.
        open: Makes the column's model for a profile (`omgm.settings.Profile`), `None` if the profile does without;
            without this function, the model is one of the profile's own.
        finish: Writes what is searched, if anything is, once the folder has all articles and rows.
        search: Makes what compares queries with the column of an index: a `retriever.label_reading.LabelReading`
            or a `retriever.protocols.Verify`; called with the column's model.
        report: Returns the column's part of a build's report.
        least: Fewest images of an article, readable or not, for which its pictures are read.
    """

    name: str
    of: Literal["sections", "images", "pictures", "entities"]
    dtype: type[np.generic]
    encode: Callable[[Any, Sequence[Stored]], list[Encoded]]
    files: tuple[str, ...]
    open: Callable[[Any], ColumnModel | None] | None = None
    finish: Callable[[Path, Sequence[Entity]], None] | None = None
    search: Callable[[Any, Any], Any] | None = None
    report: Callable[[Path], dict[str, Any]] | None = None
    least: int = 1

    def nothing(self, width: int = 0) -> Encoded:
        """Returns the rows of an entity that has none."""
        return Encoded(np.empty((0, width), self.dtype), np.empty(0, np.int64))


@cache
def columns() -> Mapping[str, Column]:
    """Returns all columns that an index may have, by their names.

    Raises:
        ValueError: An entry point does not name a `Column`.
    """
    own = "store.section_vectors:SECTION_VECTORS image_text:IMAGE_TEXT keypoints:KEYPOINTS section_words:SECTION_WORDS"
    every = [f"indexes.{name}" for name in (*own.split(), "fields:FIELDS", "thumbnails:THUMBNAILS")]
    return {column.name: column for column in declared(GROUP, Column, every)}


def columns_of(manifest: Manifest) -> list[Column]:
    """Returns the columns that an index has.

    Raises:
        ValueError: One of them is of a package that is not installed.
    """
    if unknown := sorted(manifest.inputs.columns.keys() - columns().keys()):
        raise ValueError(f"column {unknown[0]!r} is unknown; install the package that declares it, or {REBUILD}")
    return [columns()[name] for name in manifest.inputs.columns]


def column_files(manifest: Manifest) -> list[str]:
    """Returns the names of the files of an index's columns; raises like `columns_of`."""
    return [file for column in columns_of(manifest) for file in column.files]


def all_files() -> list[str]:
    """Returns the names of all files that an index may have, besides its manifest and thumbnails."""
    return [*ALL_FILES, *(file for column in columns().values() for file in column.files)]


class ColumnFiles:
    """Writes the two files of a column, after a call of `resume`.

    Args:
        column: The column.
        folder: The folder; files there are continued.
        width: The width of a row.
    """

    def __init__(self, column: Column, folder: Path, width: int) -> None:
        values, parts, *_ = column.files
        self._values = GrowingRows(folder / values, (width,), np.dtype(column.dtype))
        self._keys = GrowingRows(folder / parts, (), np.dtype(np.int64))
        self._note = folder / f"{parts}.done"  # entities and rows; the last entities may have none

    def resume(self, batch: int) -> int:
        """Drops what a killed run may have left incomplete, and returns the first row that is left to append.

        Args:
            batch: Entities that are appended at a time.
        """
        keys = self._keys.read()[: self._values.count]
        entities, rows = map(int, self._note.read_text().split()) if self._note.exists() else (0, 0)
        done = entities // batch * batch if rows <= len(keys) else 0  # unless a file is missing
        count = int(np.searchsorted(keys, done * SPREAD))
        self._values.cut(count)
        self._keys.cut(count)
        return done

    def append(self, rows: Sequence[int], encoded: Sequence[Encoded]) -> None:
        """Appends the rows of entities, given their rows in the index, and waits until they are on disk."""
        self._values.append(np.concatenate([entity.values for entity in encoded]))
        keys = [row * SPREAD + entity.parts for row, entity in zip(rows, encoded, strict=True)]
        self._keys.append(np.concatenate(keys))
        write_whole(self._note, f"{rows[-1] + 1} {self._keys.count}".encode())

    def finish(self) -> int:
        """Completes the files, and returns the number of rows."""
        self._values.finish()
        self._keys.finish()
        return self._keys.count

    def forget(self) -> None:
        """Removes the note of how far the files are, which only a build that may be killed later needs."""
        self._note.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the files."""
        self._values.__exit__(kind, error, at)
        self._keys.__exit__(kind, error, at)


class StoredColumn:
    """The files of a column, read on demand; thread-safe.

    Args:
        column: The column.
        folder: The index's files.
        manifest: Its manifest.

    Raises:
        ValueError: They are damaged, or the manifest counts others.
    """

    def __init__(self, column: Column, folder: Path, manifest: Manifest) -> None:
        values, parts, *_ = column.files
        try:
            self._values = RowFile(folder / values)
            self._keys: IntArray = map_array(folder / parts)
        except ValueError as error:
            raise ValueError(f"{folder / values} or {parts}: {error}; {REBUILD}") from error
        counts, expected = {len(self._values), len(self._keys)}, manifest.counts.columns.get(column.name, 0)
        if counts != {expected} or self._values.dtype != column.dtype:
            rows = " and ".join(map(str, sorted(counts)))
            raise ValueError(
                f"{folder / values}: {rows} rows of {self._values.dtype}, but the manifest says {expected} of "
                f"{np.dtype(column.dtype)}; {REBUILD}"
            )

    @property
    def width(self) -> int:
        """The width of a row."""
        return self._values.shape[1]

    def of(self, row: int) -> Encoded:
        """Returns the rows of the entity at `row`."""
        first, last = np.searchsorted(self._keys, [row * SPREAD, (row + 1) * SPREAD]).tolist()
        values = np.empty((last - first, *self._values.shape[1:]), self._values.dtype)
        read_spans([(self._values, [range(first, last)], values)])
        return Encoded(values, np.asarray(self._keys[first:last]) - row * SPREAD)
