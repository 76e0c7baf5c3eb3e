"""Rows of different lengths in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.reranker.rows import Rows, write_rows

UINT16 = np.dtype(np.uint16)


def test_rows_come_back(tmp_path: Path) -> None:
    written = [[1, 2, 3], [], [65535]]
    assert write_rows(tmp_path / "r.bin", (np.array(row, dtype=np.int64) for row in written), UINT16) == 3
    rows = Rows(tmp_path / "r.bin", UINT16)
    assert [rows[i].tolist() for i in range(len(rows))] == written
    assert [rows.length(i) for i in range(3)] == [3, 0, 1]
    assert (tmp_path / "r.bin").stat().st_size == 8
    rows = Rows(tmp_path / "r.bin", UINT16, longest=2)
    assert [rows[i].tolist() for i in range(len(rows))] == [[1, 3], [], [65535]]
    assert [rows.length(i) for i in range(3)] == [2, 0, 1]


def test_a_value_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="65536 does not fit uint16"):
        write_rows(tmp_path / "r.bin", [np.array([65536])], UINT16)
    assert not list(tmp_path.iterdir())
