"""Score fusion (equations 5 and 7), including how missing scores are treated; no other module decides that."""

from __future__ import annotations

from collections.abc import Sequence


def fuse(first: Sequence[float | None], second: Sequence[float | None], weight: float) -> list[float]:
    """Fuses two scores of every item: `weight * first + (1 - weight) * second`.

    A missing score is replaced by the lowest one of its list, so missing evidence never lifts an item above those that
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


def _filled(scores: Sequence[float | None]) -> list[float] | None:
    present = [s for s in scores if s is not None]
    if not present:
        return None
    lowest = min(present)
    return [lowest if s is None else s for s in scores]
