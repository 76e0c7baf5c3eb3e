from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from indexes.store.keys import Keys
from indexes.store.recall import ExactSearch, draw_rows, mixed_queries
from retriever.types import BoolArray, FloatArray, IntArray
from tests.fakes.vectors import clustered


class Fixed:
    """A search that always returns the same result."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.shape = (6, 2)

    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        return np.zeros((len(vectors), k), np.float32), np.array([self.rows] * len(vectors), np.int64)


def test_recall_counts_what_is_among_the_best_and_equals_of_the_last() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.7, 0.1, 1.0], np.float32)
    keys = Keys((np.stack([scores, np.zeros(6, np.float32)], axis=1),), np.arange(5))  # entity 5 has no key
    exact = ExactSearch(keys, torch.tensor([[1.0, 0.0], [2.0, 0.0]]), 3)
    assert exact.recall(Fixed([0, 1, 2])) == exact.recall(Fixed([3, 1, 0])) == 1
    assert exact.recall(Fixed([0, 4, 2])) == exact.recall(Fixed([0, 3, -1])) == pytest.approx(2 / 3)
    assert ExactSearch(keys, torch.zeros(0, 2), 3).recall(Fixed([0, 1, 2])) is None
    assert ExactSearch(Keys(keys.parts, np.arange(0)), torch.ones(1, 2), 3).recall(Fixed([])) is None


def test_exact_search_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys((clustered(300, 8), clustered(300, 8, seed=1)), np.arange(0, 300, 3))
    queries = torch.from_numpy(np.hstack([clustered(5, 8, seed=2), clustered(5, 8, seed=3)]))
    monkeypatch.setattr("indexes.store.keys.BLOCK", 7)
    found = ExactSearch(keys, queries, 10)
    products = queries.numpy() @ np.hstack(keys.parts)[keys.rows].T
    np.testing.assert_allclose(found._last, np.sort(products, axis=1)[:, -10], atol=1e-6)


def test_mixed_queries_are_not_stored_and_near_what_is() -> None:
    keys = Keys((clustered(500, 64), np.zeros((500, 64), np.float32)), np.arange(1, 500))
    queries = mixed_queries(keys, 100)
    assert queries.shape == (100, 64) and queries.equal(mixed_queries(keys, 100))
    torch.testing.assert_close(queries.norm(dim=1), torch.ones(100))
    best = (queries.numpy() @ keys.parts[0].T).max(axis=1)
    assert 0.8 < np.median(best) < 0.999
    assert mixed_queries(Keys(keys.parts, np.arange(0))).shape == (0, 64)


def test_drawn_rows_are_in_order_and_distinct() -> None:
    rows = np.arange(100, 200)
    drawn = draw_rows(rows, 30)
    assert len(set(drawn.tolist())) == 30 and (np.diff(drawn) > 0).all() and set(drawn) <= set(rows)
    np.testing.assert_array_equal(draw_rows(rows, 500), rows)


def test_mapped_files_are_released_after_a_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, other = Keys((clustered(30, 8),), np.arange(30)), clustered(30, 8)
    exact = ExactSearch(keys, torch.from_numpy(clustered(20, 8, seed=1)), 3)
    released = list[object]()
    monkeypatch.setattr("indexes.store.recall.release", released.append)
    assert exact.recall(Fixed([0, 1, 2]), other) is not None
    assert [one is other for one in released] == [False, True] * 3  # 8, 8 and 4 queries
