from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexes.growing import GrowingArray, GrowingRows, release


def resident(path: Path) -> int:
    """Returns how many bytes of a mapped file are resident in this process."""
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("only Linux says what is resident")
    found, inside = 0, False
    for line in smaps.read_text().splitlines():
        if line.endswith(str(path)):
            inside = True
        elif inside and line.startswith("Rss:"):
            found, inside = found + 1024 * int(line.split()[1]), False
    return found


def test_a_commit_gives_its_memory_back_and_keeps_the_values(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    array = GrowingArray(path, (1000, 1024), np.float32)
    array.values[:500] = 7
    assert resident(path) >= 500 * 4096
    array.commit(500)
    assert resident(path) < 64 * 1024
    assert (array.values[:500] == 7).all() and (array.values[500:] == 0).all()
    assert GrowingArray(path, (1000, 1024), np.float32).done == 500


def test_views_are_released_with_what_they_are_of(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024))
    halves = np.split(np.load(path, mmap_mode="r"), 2, axis=1)
    total = sum(float(half.sum()) for half in halves)
    assert resident(path) >= 1 << 22
    release(halves[1])
    assert resident(path) < 64 * 1024
    assert sum(float(half.sum()) for half in halves) == total


def test_an_array_in_memory_stays(tmp_path: Path) -> None:
    array = np.arange(10)
    release(array[2:])
    assert array.tolist() == list(range(10))


@pytest.mark.parametrize("count", [0, 1, 12345])
def test_rows_that_are_appended_are_a_file_as_numpy_writes_it(tmp_path: Path, count: int) -> None:
    values = np.arange(count * 6, dtype=np.float16).reshape(count, 2, 3)
    with GrowingRows(tmp_path / "x.npy", (2, 3), values.dtype) as rows:
        rows.cut(0)
        rows.append(values[: count // 2])
        rows.append(values[count // 2 :])
        rows.finish()
    np.save(tmp_path / "y.npy", values)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()


def test_rows_resume_after_those_that_count(tmp_path: Path) -> None:
    path, values = tmp_path / "x.npy", np.arange(20, dtype=np.int8).reshape(10, 2)
    with GrowingRows(path, (2,), values.dtype) as rows:
        rows.cut(0)
        rows.append(values[:7])  # and killed
    with path.open("ab") as file:
        file.write(b"?")  # half a row
    with GrowingRows(path, (2,), values.dtype) as rows:
        assert rows.count == 7
        rows.cut(4)
        rows.append(values[4:])
        rows.finish()
    np.testing.assert_array_equal(np.load(path), values)
