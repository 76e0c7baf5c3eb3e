from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from omgm.warm_up import warm_up
from retriever.types import Query, RetrievalResult


class Counting:
    """A fake retriever that records the sizes of batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        self.sizes.append(len(queries))
        return []


@pytest.mark.parametrize(("most", "expected"), [(1, [1]), (16, [16, 8, 4, 2, 1]), (24, [24, 16, 8, 4, 2, 1])])
def test_batches_are_warmed_up_largest_first(most: int, expected: list[int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "omgm")
    retriever: Any = Counting()
    warm_up(retriever, most)
    assert retriever.sizes == expected
    assert [f"batches of up to {most} queries" in line for line in caplog.messages] == [True] * (most > 1)
