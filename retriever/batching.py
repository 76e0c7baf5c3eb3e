"""Groups texts of similar length into batches, which saves padding."""

from __future__ import annotations

from collections.abc import Sequence


def by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Groups the positions of `lengths` into batches, shortest first.

    Padded to its longest text, a batch has at most `budget` tokens, unless it holds a single text.

    Example:
        >>> by_length([5, 30, 4, 5, 9], 15)
        [[2, 0, 3], [4], [1]]
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not batches or (len(batches[-1]) + 1) * lengths[position] > budget:
            batches.append([])
        batches[-1].append(position)
    return batches
