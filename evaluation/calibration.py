"""Does a confidence of 0.8 mean that four of five answers are right? Reliability bins and the calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose confidence lies above `low` and up to `high` (0 belongs to the first bin).

    Attributes:
        low: Where the bin begins.
        high: Where it ends.
        n: How many answers it has.
        confidence: Their mean confidence, `None` of an empty bin.
        accuracy: Their mean score, `None` of an empty bin.
    """

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bins of equal width with the expected calibration error.

    Attributes:
        bins: From 0 to 1.
        ece: The mean over answers of |accuracy - confidence| of their bin; `None` without answers.
        n: How many answers had a confidence.
    """

    bins: tuple[Bin, ...]
    ece: float | None
    n: int


def calibrate(confidences: Sequence[float | None], scores: Sequence[float], bins: int = BINS) -> Calibration:
    """Returns how well confidences foretell scores.

    Args:
        confidences: [N], 0 to 1; an answer without one is left out.
        scores: [N], 0 to 1: what each answer is worth, for most metrics 0 or 1.
        bins: How many.

    Raises:
        ValueError: The lengths differ, `bins` is less than 1, or a confidence leaves 0 to 1.

    Example:
        >>> calibrate([0.9, 0.9, 0.1], [1, 0, 0]).ece
        0.3
    """
    if len(confidences) != len(scores) or bins < 1:
        raise ValueError(f"{len(confidences)} confidences, {len(scores)} scores, {bins} bins: one score each, 1 bin up")
    pairs = np.array([(c, s) for c, s in zip(confidences, scores, strict=True) if c is not None]).reshape(-1, 2)
    if not ((pairs[:, 0] >= 0) & (pairs[:, 0] <= 1)).all():
        raise ValueError("confidences: every one has to lie between 0 and 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, pairs[:, 0], side="left") - 1, 0, bins - 1)
    members = [pairs[place == number] for number in range(bins)]
    made = tuple(_bin(edges[number], edges[number + 1], member) for number, member in enumerate(members))
    gaps = [b.n * abs(b.accuracy - b.confidence) for b in made if b.accuracy is not None and b.confidence is not None]
    return Calibration(made, round(sum(gaps) / len(pairs), 12) if len(pairs) else None, len(pairs))


def _bin(low: float, high: float, members: np.ndarray) -> Bin:
    confidence, accuracy = (float(mean) for mean in members.mean(axis=0)) if len(members) else (None, None)
    return Bin(round(float(low), 12), round(float(high), 12), len(members), confidence, accuracy)
