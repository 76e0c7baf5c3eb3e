"""JSON lines and arrays written batch by batch; after a kill, they resume after their last complete batch."""

from __future__ import annotations

import io
import math
import mmap
import os
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from retriever.arrays import map_array
from retriever.files import as_line, naming, write_whole


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Writes a `.npy` file atomically."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_whole(path, buffer.getvalue())


def release(array: NDArray[Any]) -> None:
    """Lets the system reclaim the memory of an array that is mapped from a file; its values are kept."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base  # type: ignore[assignment]  # ends at the map, or at None
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def new_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> np.memmap[Any, Any]:
    """Creates a `.npy` file and maps it into memory.

    Its disk space is reserved immediately: a process that writes to a mapped file on a full disk is killed without an
    error.

    Raises:
        OSError: There is not enough disk space.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
    assert isinstance(array, np.memmap)
    if hasattr(os, "posix_fallocate"):  # Linux
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            path.unlink()
            raise OSError(error.errno, f"{error.strerror}; it needs {array.nbytes:,} bytes", str(path)) from error
    return array


class GrowingLines:
    """A JSON lines file written batch by batch, which resumes after its last complete batch.

    An incomplete batch is dropped, so a resumed run sends a model the same batches as an uninterrupted one.

    Args:
        path: The file; created if absent.
        batch: Lines per batch.
        total: Lines of the complete file.

    Raises:
        ValueError: The file has more than `total` lines.
    """

    def __init__(self, path: Path, batch: int, total: int) -> None:
        self._path = path
        self._file = path.open("a+b")
        try:
            self.done = self._recover(batch, total)
        except ValueError as error:
            self._file.close()
            raise ValueError(f"{path}: {error}") from error

    def _recover(self, batch: int, total: int) -> int:
        self._file.seek(0)
        ends = array("q", [0])  # a list would take 80 MB for 2 million lines
        for line in self._file:
            if line.endswith(b"\n"):  # a kill may truncate the last line
                ends.append(ends[-1] + len(line))
        whole = len(ends) - 1
        if whole > total:
            raise ValueError(f"has {whole} lines, more than {total}; it belongs to other inputs, so delete it")
        done = whole if whole == total else whole // batch * batch
        self._file.truncate(ends[done])
        return done

    def restart(self) -> None:
        """Drops all lines."""
        self._file.truncate(0)
        self.done = 0

    def append(self, rows: Iterable[Any]) -> None:
        """Appends a batch, writing each row as it arrives, and waits until all of it is on disk."""
        for row in rows:
            with naming(self._path):
                self._file.write(as_line(row))
                self._file.flush()  # so that killing the process loses nothing
            self.done += 1
        with naming(self._path):
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the file."""
        with naming(self._path):
            self._file.close()  # flushes again, which fails if the disk is full


class GrowingArray:
    """A `.npy` file of known shape that is filled from front to back and resumes at its last commit.

    The file `<name>.done` next to it counts committed units; it is absent until the array has its full size on disk. If
    the array itself is missing, it is filled from the start.

    Args:
        path: The `.npy` file; created if absent.
        shape: The array's shape.
        dtype: The array's type.

    Raises:
        ValueError: The file has another shape.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._counter = path.with_name(path.name + ".done")
        if self._counter.exists() and path.exists():
            self.done = int(self._counter.read_text())
            self.values: NDArray[Any] = map_array(path, "r+")
            if self.values.shape != shape:
                raise ValueError(f"{path}: expected the shape {shape}, got {self.values.shape}; delete its folder")
        else:
            self.done = 0
            self.values = new_array(path, shape, dtype)
            self.commit(0)

    def commit(self, done: int) -> None:
        """Waits until the values are on disk, then records that the first `done` units are final."""
        assert isinstance(self.values, np.memmap)
        self.values.flush()
        release(self.values)  # otherwise all of it would count as memory of the process
        write_whole(self._counter, str(done).encode())
        self.done = done


class GrowingRows:
    """A `.npy` file to which rows are appended; its header has the number of rows only once it is finished.

    Args:
        path: The `.npy` file; created if absent.
        shape: The shape of a row.
        dtype: The type of its values.

    Attributes:
        count: Rows in the file.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._path, self._shape, self._dtype = path, shape, dtype
        self._start, self._row = len(self._header(0)), dtype.itemsize * math.prod(shape)
        path.touch()
        self._file = path.open("r+b")
        self.count = max(0, path.stat().st_size - self._start) // self._row

    def read(self) -> NDArray[Any]:
        """Returns the rows in the file, mapped into memory."""
        shape = (self.count, *self._shape)
        return (
            np.memmap(self._path, self._dtype, "r", self._start, shape) if self.count else np.empty(shape, self._dtype)
        )

    def cut(self, count: int) -> None:
        """Drops all rows except the first `count`."""
        with naming(self._path):
            self._file.seek(0)
            self._file.write(self._header(0))
            self._file.truncate(self._start + count * self._row)
            self._file.seek(0, os.SEEK_END)
        self.count = count

    def append(self, rows: NDArray[Any]) -> None:
        """Appends rows, and waits until they are on disk."""
        assert rows.shape[1:] == self._shape and rows.dtype == self._dtype
        with naming(self._path):
            self._file.write(np.ascontiguousarray(rows).data)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.count += len(rows)

    def finish(self) -> None:
        """Writes the number of rows into the header."""
        with naming(self._path):
            self._file.seek(0)
            self._file.write(self._header(self.count))
            self._file.flush()
            os.fsync(self._file.fileno())

    def _header(self, count: int) -> bytes:
        """Returns a header; NumPy pads it to the same length for every count."""
        buffer = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(self._dtype)
        shape = (count, *self._shape)
        np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
        return buffer.getvalue()

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the file."""
        with naming(self._path):
            self._file.close()
