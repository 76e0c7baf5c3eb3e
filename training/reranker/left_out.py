"""Counts questions that cannot be trained on and lists them in a file; too many bad ones are an error."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from retriever.files import write_lines

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LeftOut:
    """Questions that do not become samples, with the reasons.

    Attributes:
        rows: (question id, reason, whether the data is at fault).
    """

    rows: list[tuple[str, str, bool]] = field(default_factory=list)

    def add(self, question: str, reason: str, *, bad: bool = True) -> None:
        """Adds a question; it is `bad` unless the data set simply does not label it."""
        self.rows.append((question, reason, bad))

    def too_many(self, total: int, max_bad: float) -> bool:
        """Returns whether more than `max_bad` of `total` questions are bad."""
        return sum(row[2] for row in self.rows) > max_bad * total

    def report(self, path: Path, total: int, max_bad: float) -> None:
        """Writes one JSON line per question to `path` and logs the number of questions left out for each reason.

        Raises:
            ValueError: More than `max_bad` of `total` questions are bad.
        """
        write_lines(path, ({"id": question, "reason": reason, "bad": bad} for question, reason, bad in self.rows))
        reasons = Counter(reason.partition(":")[0] for _, reason, _ in self.rows)
        for reason, count in reasons.most_common():
            logger.warning("%d of %d questions left out: %s", count, total, reason)
        if self.too_many(total, max_bad):
            bad = sum(row[2] for row in self.rows)
            raise ValueError(
                f"{bad} of {total} questions are bad, more than {100 * max_bad:g} %: {path} lists them; "
                "fix the data, or allow a larger share with --max-bad"
            )
