"""What the terminal says of a run, and the runs in which nothing could be evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.summary import check_any

FAILED: dict[str, Any] = {
    "n_queries": 2,
    "n_failed": 2,
    "n_gold_missing": 0,
    "failed": [{"id": "a", "reason": "image: 'a' is not there"}],
    "answer": {"accuracy": 0.0},
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "none of 2 questions could be evaluated; the first one: image: 'a' is not there"),
        ({"n_failed": 0, "n_gold_missing": 2, "answer": {"accuracy": None}}, "the first one: its entity is not in the"),
        ({"n_failed": 1}, ""),
        ({"n_failed": 0, "n_gold_missing": 2}, ""),  # there are answers
        ({"n_queries": 0, "n_failed": 0}, ""),
    ],
)
def test_a_run_without_any_result_is_an_error(change: dict[str, Any], reason: str) -> None:
    if reason:
        with pytest.raises(ValueError, match=reason):
            check_any(FAILED | change)
    else:
        check_any(FAILED | change)
