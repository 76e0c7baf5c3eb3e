"""Groups texts into forward passes for a GPU, for which a pass costs time of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PASS_COST = 4096
"""The padding, in tokens, that a further forward pass must save at least.

Forward and backward, a pass through BLIP-2's 12 layers launches about 2,100 kernels, which takes the CPU 10 ms whatever
their size; an H100 computes 4096 tokens in about 4 ms. CPU and GPU work at the same time, so the slower one counts. A
step of 8 questions (136 pairs, 30,000 tokens) then takes three passes with 32 % padding: 31 ms on the CPU and 37 ms on
the GPU. `retriever.batching.by_length`, which fills every pass, would make it five passes of at most 8192 tokens (50 ms
and 35 ms), or two of at most 32,768 with 64 % padding (21 ms and 46 ms).
"""


def least_padding(lengths: Sequence[int], budget: int, pass_cost: int = PASS_COST) -> list[list[int]]:
    """Groups the positions of `lengths` into passes, shortest first, at the least total cost.

    A pass costs `pass_cost` and all of its tokens, padded to its longest text. It has at most `budget` tokens, unless
    it holds a single text. Lengths are at least 1.

    Example:
        >>> least_padding([5, 30, 4, 5, 9], 1000, pass_cost=20)
        [[2, 0, 3, 4], [1]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    cost = np.zeros(len(order) + 1, np.int64)  # of the first texts, grouped in the best way
    start = np.zeros(len(order) + 1, np.int64)  # of the last of these groups
    for end, length in enumerate((lengths[position] for position in order), 1):
        first = max(0, end - max(1, budget // length))
        costs = cost[first:end] + np.arange(end - first, 0, -1) * length
        best = int(costs.argmin())
        cost[end], start[end] = costs[best] + pass_cost, first + best
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[start[end] : end])
        end = int(start[end])
    return groups[::-1]
