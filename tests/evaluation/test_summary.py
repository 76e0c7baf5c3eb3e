"""What the terminal says of a run, with its counts, and the runs in which nothing could be evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evaluation.metrics import Outcome, counts_of
from evaluation.summary import check_any, counts_line

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


ONE = Outcome("q", {}, {}, None, False)


def test_each_count() -> None:
    outcomes = [
        replace(ONE, nearly=True),
        replace(ONE, failed="image: 'a' is not in the folder of query images", gold_missing=True),
        replace(ONE, failed="retrieval: ValueError"),
        replace(ONE, unanswered=True, ending="cut"),
        replace(ONE, ending="cut", section_missing=True),
        replace(ONE, unanswered=True, ending="refused"),
        replace(ONE, ending="filtered", without_reference=True),
        replace(ONE, shallow=True),
        replace(ONE, entity_known=False),
    ]
    counts = counts_of(outcomes)
    assert list(counts.values()) == [2, 1, 1, 1, 1, 1, 1, 2, 1, 2, 1, 1]
    assert counts_line({"n_queries": 9, **counts}) == (
        "of 9 questions: 2 failed, 1 of them without a usable image, 1 about entities that the index lacks, "
        "1 whose right section the index lacks, 1 with fewer than 20 candidates, which is as far as Recall@K reaches, "
        "1 that name no entity, and do not count in Recall@K, 1 without a reference, 2 unanswered, "
        "1 wrong only by more or fewer words than a reference, such as a unit, "
        "2 cut at the maximum length, 1 refused by the model, "
        "1 cut by the server's content filter"
    )
    assert counts_line({"n_queries": 1, **counts_of([ONE])}) == ""
    assert counts_of([replace(ONE, entity_known=False)])["n_without_entity"] == 0  # data sets without any name none
