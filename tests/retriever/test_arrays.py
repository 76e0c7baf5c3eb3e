"""Literals and the headers of arrays parsed by several threads: early releases of CPython 3.11 fail if both at once."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retriever.arrays import map_array, parse_literal


class _Yielding:
    """Garbage in a cycle: its collection lets other threads run, in the middle of whatever is parsed."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def switching() -> Iterator[None]:
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


@pytest.mark.slow
def test_threads_parse_literals_and_headers_at_once(tmp_path: Path, switching: None) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    end = time.monotonic() + 3

    def parse(thread: int) -> int:
        rounds = 0
        while time.monotonic() < end:
            _Yielding()
            mapped = map_array(tmp_path / "a.npy")
            assert mapped.tolist() == [[0, 1, 2], [3, 4, 5]]
            assert parse_literal(f"{{'a': [{thread}]}}") == {"a": [thread]}
            rounds += 1
        return rounds

    with ThreadPoolExecutor(8) as threads:
        assert min(threads.map(parse, range(8))) > 0


def test_a_mapped_array_is_written_through(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    array = map_array(tmp_path / "a.npy", "r+")
    assert isinstance(array, np.memmap)
    array[1] = 2
    array.flush()
    assert map_array(tmp_path / "a.npy").tolist() == [0, 2, 0]
