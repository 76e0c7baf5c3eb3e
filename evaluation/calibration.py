"""Calibration: are 80 % of the answers with confidence 0.8 right? Reliability bins and the calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evaluation.metrics import Outcome

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers with a confidence in (low, high]; the first bin also holds 0.

    Attributes:
        low: Lower bound, exclusive.
        high: Upper bound, inclusive.
        n: Number of answers.
        confidence: Their mean confidence; `None` for an empty bin.
        accuracy: Their mean score; `None` for an empty bin.
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
        bins: The bins, from 0 to 1.
        ece: Expected calibration error: |accuracy - confidence| of each bin, averaged over answers; `None` without
            answers.
        n: Number of answers with a confidence.
    """

    bins: tuple[Bin, ...]
    ece: float | None
    n: int


def calibrate(confidences: Sequence[float | None], scores: Sequence[float], bins: int = BINS) -> Calibration:
    """Measures how well confidences predict scores.

    Args:
        confidences: [N], 0 to 1; answers with `None` are left out.
        scores: [N], 0 to 1; for most metrics 0 or 1.
        bins: Number of bins.

    Raises:
        ValueError: The lengths differ, `bins` is less than 1, or a confidence is outside 0 to 1.

    Example:
        >>> calibrate([0.9, 0.9, 0.1], [1, 0, 0]).ece
        0.3
    """
    if len(confidences) != len(scores) or bins < 1:
        counts = f"{len(confidences)} confidences, {len(scores)} scores and {bins} bins"
        raise ValueError(f"calibration needs one score per confidence and at least 1 bin, got {counts}")
    pairs = np.array([(c, s) for c, s in zip(confidences, scores, strict=True) if c is not None]).reshape(-1, 2)
    if not ((pairs[:, 0] >= 0) & (pairs[:, 0] <= 1)).all():
        raise ValueError("confidences must be between 0 and 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, pairs[:, 0], side="left") - 1, 0, bins - 1)
    members = [pairs[place == number] for number in range(bins)]
    filled = tuple(_bin(edges[number], edges[number + 1], member) for number, member in enumerate(members))
    gaps = [b.n * abs(b.accuracy - b.confidence) for b in filled if b.accuracy is not None and b.confidence is not None]
    return Calibration(filled, round(sum(gaps) / len(pairs), 12) if len(pairs) else None, len(pairs))


def calibration_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the calibration of a run's answers, ready for JSON; abstentions are left out."""
    answered = [o for o in outcomes if o.answer_scores and not o.unanswered and o.confidence is not None]
    # a confidence computed from log-probabilities can round to more than 1
    confidences = [min(max(o.confidence or 0.0, 0.0), 1.0) for o in answered]
    calibration = calibrate(confidences, [next(iter(o.answer_scores.values())) for o in answered])
    return {"ece": calibration.ece, "n": calibration.n, "bins": [asdict(b) for b in calibration.bins]}


def _bin(low: float, high: float, members: np.ndarray) -> Bin:
    confidence, accuracy = (float(mean) for mean in members.mean(axis=0)) if len(members) else (None, None)
    return Bin(round(float(low), 12), round(float(high), 12), len(members), confidence, accuracy)
