"""Spans of rows are read as they are in the array, whatever its type, and by however many threads."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexes.store import row_file
from indexes.store.row_file import RowFile, read_spans
from tests.paths import ROOT

SHAPES = [((7,), "int64"), ((50, 3), "float16"), ((300, 4, 5), "int8"), ((300, 2, 16), "uint8"), ((0, 0, 0), "float16")]


def saved(path: Path, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Writes an array of random bytes and returns it."""
    generator = np.random.default_rng(0)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    array = np.frombuffer(generator.bytes(size), dtype).reshape(shape)
    np.save(path, array)
    return array


def read(rows: RowFile | NDArray[Any], spans: list[range]) -> NDArray[Any]:
    """Returns spans of rows, end to end."""
    into = np.empty((sum(map(len, spans)), *rows.shape[1:]), rows.dtype)
    read_spans([(rows, spans, into)])
    return into


@pytest.fixture(params=["one thread", "several threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets one thread read everything, or several threads share even small spans."""
    if request.param == "several threads":
        monkeypatch.setattr(row_file, "_SMALL", 0)
        monkeypatch.setattr(row_file, "_PIECE", 99)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
def test_spans_equal_those_of_the_array(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    array = saved(tmp_path / "a.npy", shape, dtype)
    rows = RowFile(tmp_path / "a.npy")
    assert (rows.shape, rows.dtype, rows.nbytes, len(rows)) == (array.shape, array.dtype, array.nbytes, len(array))
    generator, count = np.random.default_rng(1), shape[0]
    for _ in range(20):
        bounds = np.sort(generator.integers(0, count + 1, (generator.integers(0, 6), 2)), axis=1).tolist()
        spans = [range(start, stop) for start, stop in bounds] + [range(count), range(max(count - 1, 0), count)]
        expected = np.concatenate([array[span.start : span.stop] for span in spans])
        for source in (rows, array):
            assert read(source, spans).tobytes() == expected.tobytes()


@pytest.mark.usefixtures("threads")
def test_many_readers_at_once(tmp_path: Path) -> None:
    array = saved(tmp_path / "a.npy", (2000, 64), "int8")
    rows = RowFile(tmp_path / "a.npy")

    def check(seed: int) -> bool:
        starts = np.random.default_rng(seed).integers(0, 1900, 20).tolist()
        spans = [range(start, start + 40) for start in starts]
        return np.array_equal(read(rows, spans), np.concatenate([array[span.start : span.stop] for span in spans]))

    with ThreadPoolExecutor(40) as pool:
        assert all(pool.map(check, range(60)))


def test_busy_threads_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the reads of others wait for a slow disk, a batch is read by the thread that needs it."""
    array = saved(tmp_path / "a.npy", (40, 64), "int8")
    monkeypatch.setattr(row_file, "_SMALL", 0)
    slow, begun = threading.Event(), threading.Barrier(row_file._THREADS + 1)

    def hang() -> None:
        begun.wait()
        slow.wait()

    stuck = [row_file._threads().submit(hang) for _ in range(row_file._THREADS)]
    begun.wait()
    try:
        rows = RowFile(tmp_path / "a.npy")
        assert np.array_equal(read(rows, [range(row, row + 1) for row in range(40)]), array)
    finally:
        slow.set()
    assert all(future.result() is None for future in stuck)


@pytest.mark.usefixtures("threads")
def test_a_file_that_was_truncated_while_open(tmp_path: Path) -> None:
    saved(tmp_path / "a.npy", (300, 64), "int8")
    rows = RowFile(tmp_path / "a.npy")
    os.truncate(tmp_path / "a.npy", 10_000)
    with pytest.raises(OSError, match=r"ends at byte 10000; it was truncated while it was open.*a\.npy"):
        read(rows, [range(300)])


def test_an_interrupted_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array, real = saved(tmp_path / "a.npy", (300, 64), "int8"), os.preadv

    def preadv(file: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        return real(file, [buffers[0][:100]], offset, flags)

    monkeypatch.setattr(os, "preadv", preadv)
    assert np.array_equal(read(RowFile(tmp_path / "a.npy"), [range(5, 290)]), array[5:290])


@pytest.mark.parametrize(("cached", "shares"), [(1 << 20, 0), (100, 1), (0, 3)])
def test_only_what_is_not_in_memory_is_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: int, shares: int
) -> None:
    array = saved(tmp_path / "a.npy", (300, 64), "int8")
    rows, real, waited = RowFile(tmp_path / "a.npy"), os.preadv, list[int]()

    def preadv(file: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if not flags:
            waited.append(buffers[0].nbytes)
            return real(file, buffers, offset)
        if not cached:
            raise BlockingIOError
        return real(file, [buffers[0][:cached]], offset)

    monkeypatch.setattr(os, "preadv", preadv)
    spans = [range(1), range(3, 4), range(9, 300)]
    assert np.array_equal(read(rows, spans), np.concatenate([array[span.start : span.stop] for span in spans]))
    assert len(waited) == shares and sum(waited) == sum(max(len(span) * 64 - cached, 0) for span in spans)


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL, None])
def test_where_the_system_cannot_tell_what_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int | None
) -> None:
    """As on network file systems and on macOS."""
    array, real = saved(tmp_path / "a.npy", (300, 64), "int8"), os.preadv

    def preadv(file: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(error, "not supported")
        return real(file, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    if error is None:
        monkeypatch.setattr(row_file, "_CACHED_ONLY", None)
    found = read(RowFile(tmp_path / "a.npy"), [range(2), range(9, 40), range(40, 300)])
    assert np.array_equal(found, np.delete(array, range(2, 9), 0))


def test_what_is_not_a_whole_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.ones((3, 4))))
    with pytest.raises(ValueError, match="not an array in C order of float64"):
        RowFile(path)
    saved(path, (3, 4), "int8")
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ValueError, match=r"truncated or not an array in C order of int8 \[3, 4\]"):
        RowFile(path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="magic string"):
        RowFile(path)
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ones(3), version=(2, 0))
    with pytest.raises(ValueError, match=r"version \(2, 0\), expected \(1, 0\)"):
        RowFile(path)


def test_a_forked_process_reads_with_threads_of_its_own(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
import numpy as np
from indexes.store import row_file
row_file._SMALL = 0
np.save(sys.argv[1], np.arange(4000))
rows = row_file.RowFile(Path(sys.argv[1]))
def check():
    into = np.empty(3000, np.int64)
    row_file.read_spans([(rows, [range(row, row + 30) for row in range(0, 3000, 30)], into)])
    assert np.array_equal(into, np.arange(3000))
check()
if not (child := os.fork()):
    check()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
check()
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "a.npy")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
