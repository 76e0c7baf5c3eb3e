"""Texts of similar length share a batch."""

from __future__ import annotations

from retriever.batching import by_length


def test_a_batch_stays_within_the_budget() -> None:
    assert by_length([4, 4, 4, 4], 12) == [[0, 1, 2], [3]]  # 3 rows of 4 fill it
    assert by_length([5, 30, 4, 5, 9], 15) == [[2, 0, 3], [4], [1]]  # one that exceeds the budget gets its own batch


def test_nothing_makes_no_batch() -> None:
    assert by_length([], 15) == []
