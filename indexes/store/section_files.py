"""The vectors of sections in the files of an index: written in batches, and read on demand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from indexes.growing import GrowingRows
from indexes.store.manifest import REBUILD, SECTION_VECTORS, SECTION_WINDOWS, Manifest
from indexes.store.row_file import RowFile, read_spans
from retriever.types import IntArray

SPREAD = 1 << 24
"""Sections reserved per entity: windows of section p of the entity at row r have the key `r * SPREAD + p`."""


class EncodedSections(NamedTuple):
    """The windows of an entity's sections, or of several entities'.

    Attributes:
        vectors: int8 [windows, dimension].
        sections: Which section each window belongs to, ascending, int64 [windows]: its position in the entity, or its
            key in a file.
    """

    vectors: NDArray[np.int8]
    sections: IntArray

    def split(self, sections: int) -> list[NDArray[np.int8]]:
        """Returns the windows of each of an entity's sections."""
        return np.split(self.vectors, np.searchsorted(self.sections, np.arange(1, sections))) if sections else []


def no_vectors(dimension: int = 0) -> EncodedSections:
    """Returns the windows of an entity without sections."""
    return EncodedSections(np.empty((0, dimension), np.int8), np.empty(0, np.int64))


class SectionFiles:
    """Writes `section_vectors.npy` and `section_windows.npy`, the section of each window, after a call of `resume`.

    Args:
        folder: The folder; files there are continued.
        dimension: The length of a vector.
    """

    def __init__(self, folder: Path, dimension: int) -> None:
        self._vectors = GrowingRows(folder / SECTION_VECTORS, (dimension,), np.dtype(np.int8))
        self._keys = GrowingRows(folder / SECTION_WINDOWS, (), np.dtype(np.int64))

    def resume(self, batch: int) -> int:
        """Drops what a killed run may have left incomplete, and returns the first row that is left to append.

        Args:
            batch: Entities that are appended at a time.
        """
        keys = self._keys.read()[: self._vectors.count]
        done = int(keys[-1]) // SPREAD // batch * batch if len(keys) else 0  # the last batch may be incomplete
        count = int(np.searchsorted(keys, done * SPREAD))
        self._vectors.cut(count)
        self._keys.cut(count)
        return done

    def append(self, rows: Sequence[int], encoded: Sequence[EncodedSections]) -> None:
        """Appends the vectors of entities, given their rows, and waits until they are on disk."""
        self._vectors.append(np.concatenate([one.vectors for one in encoded]))
        self._keys.append(np.concatenate([row * SPREAD + one.sections for row, one in zip(rows, encoded, strict=True)]))

    def finish(self) -> int:
        """Completes the files, and returns the number of windows."""
        self._vectors.finish()
        self._keys.finish()
        return self._keys.count

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the files."""
        self._vectors.__exit__(kind, error, at)
        self._keys.__exit__(kind, error, at)


class SectionVectors:
    """The files of section vectors, read on demand; thread-safe.

    Args:
        folder: The index's files.
        manifest: Its manifest.

    Raises:
        ValueError: They are damaged, or the manifest counts others.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        try:
            self.vectors = RowFile(folder / SECTION_VECTORS)
            self.keys: IntArray = np.asarray(np.load(folder / SECTION_WINDOWS, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            raise ValueError(f"{folder / SECTION_VECTORS} or {SECTION_WINDOWS}: {error}; {REBUILD}") from error
        found = {len(self.vectors), len(self.keys)}
        if found != {manifest.counts.section_windows} or self.vectors.dtype != np.int8:
            rows = " and ".join(map(str, sorted(found)))
            raise ValueError(
                f"{folder / SECTION_VECTORS}: {rows} rows of {self.vectors.dtype}, but the manifest says "
                f"{manifest.counts.section_windows} of int8; {REBUILD}"
            )

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.vectors.shape[1]

    def of(self, row: int) -> EncodedSections:
        """Returns the windows of the entity at `row`."""
        first, last = np.searchsorted(self.keys, [row * SPREAD, (row + 1) * SPREAD]).tolist()
        vectors = np.empty((last - first, *self.vectors.shape[1:]), np.int8)
        read_spans([(self.vectors, [range(first, last)], vectors)])
        return EncodedSections(vectors, np.asarray(self.keys[first:last]) - row * SPREAD)
