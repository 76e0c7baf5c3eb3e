"""What stands beside the figures of a run: how many questions have no answer, no image, no reference, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluation.metrics import Outcome

COUNTS = {
    "n_failed": "failed",
    "n_images_missing": "of them without a usable image",
    "n_gold_missing": "about entities that the index lacks",
    "n_without_reference": "without a reference",
    "n_unanswered": "unanswered",
    "n_cut": "cut at the maximum length",
    "n_refused": "refused by the model",
    "n_filtered": "cut by the server's content filter",
}
"""The words for each count of `metrics.json`."""


def counts_of(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Returns the counts of a run's questions."""
    return {
        "n_failed": sum(o.failed is not None for o in outcomes),
        "n_images_missing": sum(o.failed is not None and o.failed.startswith("image:") for o in outcomes),
        "n_gold_missing": sum(o.gold_missing for o in outcomes),
        "n_without_reference": sum(o.without_reference for o in outcomes),
        "n_unanswered": sum(o.unanswered for o in outcomes),
        "n_cut": sum(o.ending == "cut" for o in outcomes),
        "n_refused": sum(o.ending == "refused" for o in outcomes),
        "n_filtered": sum(o.ending == "filtered" for o in outcomes),
    }


def counts_line(metrics: Mapping[str, Any], total: str = "n_queries") -> str:
    """Returns the counts that are not zero in words, "" if all are.

    Example:
        >>> counts_line({"n_queries": 2000, "n_failed": 1200, "n_images_missing": 9, "n_unanswered": 0})
        'of 2,000 questions: 1,200 failed, 9 of them without a usable image'
    """
    listed = [f"{metrics[key]:,} {words}" for key, words in COUNTS.items() if metrics.get(key)]
    return f"of {metrics[total]:,} questions: {', '.join(listed)}" if listed else ""
