"""Score fusion (equations 5 and 7): how missing scores are treated, and which weight a validation split chooses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WORDS = 0.3
"""Default weight of the similarity of words, which is added to the score of the images."""
KEYPOINTS = 0.3
"""Weight of the agreement of keypoints, which is added, too."""
_CHANCE, _CERTAIN = 4, 12
"""How many places agree by chance, and how many with nothing but the same thing."""


def agreed(places: int | None) -> float:
    """Returns the agreement of keypoints, from 0 to 1, given how many places agree."""
    return min(max((places or 0) - _CHANCE, 0) / (_CERTAIN - _CHANCE), 1.0)


def fuse(first: Sequence[float | None], second: Sequence[float | None], weight: float) -> list[float]:
    """Fuses the two scores of each item: `weight * first + (1 - weight) * second`.

    A missing score is replaced by the lowest in its list, so missing evidence never lifts an item above those that
    have it, and an article without an image is not discarded. If a list has no scores at all, only the other counts.

    Example:
        >>> fuse([0.5, 0.4], [0.1, 0.3], weight=0.5)
        [0.3, 0.35]
        >>> fuse([0.5, 0.25], [None, 0.5], weight=0.5)
        [0.5, 0.375]

    Raises:
        ValueError: The lists differ in length, or `weight` is outside [0, 1].
    """
    if len(first) != len(second):
        raise ValueError(f"cannot fuse {len(first)} scores with {len(second)}: the lists must be equally long")
    if not 0 <= weight <= 1:
        raise ValueError(f"a fusion weight must be between 0 and 1, got {weight}")
    a, b = _filled(first), _filled(second)
    if a is None or b is None:
        return a or b or [0.0] * len(first)
    return [weight * x + (1 - weight) * y for x, y in zip(a, b, strict=True)]


def choose_weight(recall: Mapping[float, float], count: int) -> float:
    """Chooses the weight in the middle of those whose recall is within one standard error of the best.

    The curve is flat around its maximum, so which weight comes out on top is a matter of chance. The middle of the flat
    part varies less between small validation splits.

    Args:
        recall: The share of correct queries by weight.
        count: The number of queries.

    Returns:
        The weight nearest to the middle; on a tie, the smaller one.

    Raises:
        ValueError: There are no weights or no queries.

    Example:
        >>> choose_weight({0.0: 0.5, 0.25: 0.8, 0.5: 0.87, 0.75: 0.9, 1.0: 0.88}, count=100)  # 0.87 to 0.9
        0.75
    """
    if not recall or count < 1:
        raise ValueError(f"choosing a weight needs at least one weight and one query, got {len(recall)} and {count}")
    best = max(recall.values())
    flat = [weight for weight, share in recall.items() if share >= best - math.sqrt(best * (1 - best) / count)]
    middle = (min(flat) + max(flat)) / 2
    return min(sorted(flat), key=lambda weight: round(abs(weight - middle), 9))  # rounded, so that ties are exact


def _filled(scores: Sequence[float | None]) -> list[float] | None:
    present = [s for s in scores if s is not None]
    if not present:
        return None
    lowest = min(present)
    return [lowest if s is None else s for s in scores]
