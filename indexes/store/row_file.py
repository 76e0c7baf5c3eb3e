"""The rows of arrays in memory or in `.npy` files; all spans of a batch are read from files at the same time."""

from __future__ import annotations

import errno
import functools
import math
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SMALL = 16 << 20
"""Bytes that one thread copies from the page cache sooner than it could hand them to others."""
_FEW = 2
"""Reads for which other threads are not worth it: the values and the scales of one span."""
_PIECE = 1 << 20
"""Bytes of a large read; several threads share it."""
_THREADS = 16
"""Reads that wait for the disk at the same time, more than there are cores."""
_CACHED_ONLY: int | None = getattr(os, "RWF_NOWAIT", None)
"""Makes a read return at once with what is in memory; only on Linux."""


class RowFile:
    """The rows of a `.npy` file, read on demand; thread-safe.

    The file is not memory-mapped: page faults would fetch one span after the other, and after a pass over all of it, it
    would count as memory of the process.

    Args:
        path: The file.

    Raises:
        ValueError: It is not a whole `.npy` file in C order.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        with open(self._file, "rb", closefd=False) as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"is a .npy file of version {version}, expected (1, 0)")
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
            self._start = file.tell()
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        self._stride = math.prod(shape[1:]) * dtype.itemsize
        self.nbytes: int = shape[0] * self._stride
        if by_columns or dtype.hasobject or os.fstat(self._file).st_size < self._start + self.nbytes:
            raise ValueError(f"is truncated or not an array in C order of {dtype} {list(shape)}")

    def __len__(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def reads(self, spans: Iterable[range], into: NDArray[Any]) -> Iterator[Read]:
        """Yields what `read_all` has to do to read spans of rows, end to end, into a contiguous array."""
        view, at = into.reshape(-1).view(np.uint8).data, 0
        for span in spans:
            end, shift = at + len(span) * self._stride, self._start + span.start * self._stride - at
            for start in range(at, end, _PIECE):
                yield Read(self._file, start + shift, view[start : min(start + _PIECE, end)], self.path)
            at = end


Rows = NDArray[Any] | RowFile
"""Rows in memory or in a file."""


class Read(NamedTuple):
    """Bytes of a file to read into memory."""

    file: int
    offset: int
    into: memoryview
    path: Path

    def run(self) -> None:
        """Reads the bytes.

        Raises:
            OSError: They cannot be read, or the file ends before.
        """
        view, offset = self.into, self.offset
        while view:  # a signal may interrupt a read
            count = os.preadv(self.file, [view], offset)
            if not count:
                size = os.fstat(self.file).st_size
                raise OSError(errno.EIO, f"ends at byte {size}; it was truncated while it was open", str(self.path))
            view, offset = view[count:], offset + count

    def cached(self) -> Read | None:
        """Reads what the system has in memory, and returns what is left to do."""
        if _CACHED_ONLY is None:
            return self
        try:
            count = os.preadv(self.file, [self.into], self.offset, _CACHED_ONLY)
        except OSError:  # nothing is in memory, or the file system cannot tell
            return self
        return None if count == self.into.nbytes else self._replace(offset=self.offset + count, into=self.into[count:])


def read_spans(wanted: Iterable[tuple[Rows, Sequence[range], NDArray[Any]]]) -> None:
    """Reads spans of rows, end to end, into arrays; from files, all of them at the same time.

    Args:
        wanted: Triples of where the rows are, the spans, and the array that gets them, [sum of their lengths, ...].

    Raises:
        OSError: A file cannot be read.
    """
    reads: list[Read] = []
    for rows, spans, into in wanted:
        if isinstance(rows, RowFile):
            reads += rows.reads(spans, into)
        else:
            np.concatenate([rows[:0], *(rows[span.start : span.stop] for span in spans)], out=into)
    read_all(reads)


def read_all(reads: Sequence[Read]) -> None:
    """Reads bytes of files at the same time.

    Raises:
        OSError: A file cannot be read.
    """
    if len(reads) <= _FEW:
        _run(reads)
        return
    if sum(read.into.nbytes for read in reads) < _SMALL:
        reads = [left for read in reads if (left := read.cached()) is not None]
    shares = [functools.partial(_run, reads[number::_THREADS]) for number in range(min(_THREADS, len(reads)))]
    others = [(_threads().submit(share), share) for share in shares[1:]]
    for share in shares[:1]:
        share()
    for future, share in others:
        if future.cancel():  # all threads are busy with the reads of others
            share()
        else:
            future.result()


def _run(reads: Sequence[Read]) -> None:
    for read in reads:
        read.run()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "reads")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child process does not inherit threads
