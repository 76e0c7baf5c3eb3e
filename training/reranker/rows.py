"""Rows of different lengths in one file: token ids of millions of sections without a Python object for each.

Rows are read with `pread` rather than through a memory map, because pages that a map has touched count as memory of the
process until the kernel reclaims them, and a page fault holds Python's GIL.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.growing import save_array
from retriever.arrays import map_array
from retriever.files import replacing

Array = NDArray[Any]


class Rows:
    """Reads the rows of a file that `write_rows` wrote.

    Args:
        path: The file; its offsets are in `PATH.npy` next to it.
        dtype: The dtype of the rows.
        longest: Most items per row; a longer row is cut but keeps its last item, as when a tokenizer cuts texts.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], longest: int | None = None):
        self.path, self.dtype, self.longest = path, dtype, longest
        self.offsets: NDArray[np.int64] = np.array(map_array(_offsets(path)))
        self._file = os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        """Returns a row."""
        first, last = int(self.offsets[row]), int(self.offsets[row + 1])
        size = self.dtype.itemsize
        whole = np.frombuffer(os.pread(self._file, (last - first) * size, first * size), self.dtype)
        return whole if self.length(row) == len(whole) else np.append(whole[: self.length(row) - 1], whole[-1])

    def length(self, row: int) -> int:
        """Returns the number of items of a row."""
        whole = int(self.offsets[row + 1] - self.offsets[row])
        return whole if self.longest is None else min(whole, self.longest)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def write_rows(path: Path, rows: Iterable[Array], dtype: np.dtype[Any]) -> int:
    """Writes one-dimensional rows, holding one in memory at a time; returns their number.

    Raises:
        ValueError: A value does not fit `dtype`.
    """
    offsets = array("q", [0])
    with replacing(path) as partial, partial.open("wb") as file:
        for row in rows:
            if row.size and not np.can_cast(np.min_scalar_type(row.max()), dtype):
                raise ValueError(f"{path}: {row.max()} does not fit {dtype}")
            file.write(row.astype(dtype).tobytes())
            offsets.append(offsets[-1] + len(row))
    save_array(_offsets(path), np.array(offsets, np.int64))
    return len(offsets) - 1


def _offsets(path: Path) -> Path:
    return path.with_name(path.name + ".npy")
