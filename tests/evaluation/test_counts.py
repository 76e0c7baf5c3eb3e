"""The counts beside a run's figures."""

from __future__ import annotations

from dataclasses import replace

from evaluation.metrics import Outcome, counts_of
from evaluation.summary import counts_line

ONE = Outcome("q", {}, {}, None, False)


def test_each_count() -> None:
    outcomes = [
        ONE,
        replace(ONE, failed="image: 'a' is not in the folder of query images", gold_missing=True),
        replace(ONE, failed="retrieval: ValueError"),
        replace(ONE, unanswered=True, ending="cut"),
        replace(ONE, ending="cut"),
        replace(ONE, unanswered=True, ending="refused"),
        replace(ONE, ending="filtered", without_reference=True),
    ]
    counts = counts_of(outcomes)
    assert list(counts.values()) == [2, 1, 1, 1, 2, 2, 1, 1]
    assert counts_line({"n_queries": 7, **counts}) == (
        "of 7 questions: 2 failed, 1 of them without a usable image, 1 about entities that the index lacks, "
        "1 without a reference, 2 unanswered, 2 cut at the maximum length, 1 refused by the model, "
        "1 cut by the server's content filter"
    )
    assert counts_line({"n_queries": 1, **counts_of([ONE])}) == ""
