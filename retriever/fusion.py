"""Score fusion (equations 5 and 7): the one place that decides what a missing score means."""

from __future__ import annotations

from collections.abc import Sequence


def fuse(first: Sequence[float | None], second: Sequence[float | None], weight: float) -> list[float]:
    """Returns `weight * first + (1 - weight) * second` for each item of one list.

    A missing score is filled with the lowest score of its kind in the list: absent evidence never lifts an item above
    one that has it, and an item is not thrown out for an article without a picture. A kind that nobody has is left out
    altogether, so the other decides alone.

    Example:
        >>> fuse([0.5, 0.4], [0.1, 0.3], weight=0.5)
        [0.3, 0.35]
        >>> fuse([0.5, 0.25], [None, 0.5], weight=0.5)
        [0.5, 0.375]

    Raises:
        ValueError: The lists differ in length, or `weight` is outside [0, 1].
    """
    if len(first) != len(second):
        raise ValueError(f"cannot fuse {len(first)} scores with {len(second)}")
    if not 0 <= weight <= 1:
        raise ValueError(f"a fusion weight lies between 0 and 1, not {weight}")
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
