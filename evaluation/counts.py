"""What stands beside the figures of a run: how many questions have no answer, no image, no reference, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def counts_line(metrics: Mapping[str, Any]) -> str:
    """Returns the counts that are not zero in words, "" if all are.

    Example:
        >>> counts_line({"n_queries": 2000, "n_failed": 1200, "n_images_missing": 9, "n_unanswered": 0})
        'of 2,000 questions: 1,200 failed, 9 of them without a usable image'
    """
    listed = [f"{metrics[key]:,} {words}" for key, words in COUNTS.items() if metrics.get(key)]
    return f"of {metrics['n_queries']:,} questions: {', '.join(listed)}" if listed else ""
