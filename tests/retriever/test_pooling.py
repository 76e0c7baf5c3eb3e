from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from retriever.pooling import pool_tokens


def at(*degrees: float) -> torch.Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], dim=-1)[None].float()


def degrees(tokens: torch.Tensor) -> list[float]:
    return [math.degrees(math.atan2(y, x)) for x, y in tokens[0].tolist()]


def test_by_hand() -> None:
    # 0 and 4 degrees merge first, then 90 and 100; the sum of the four has the direction halfway between the pairs
    tokens = at(90, 0, 100, 4, -120)
    assert degrees(pool_tokens(tokens, 4)) == pytest.approx([90, 2, 100, -120], abs=1e-3)
    assert degrees(pool_tokens(tokens, 3)) == pytest.approx([95, 2, -120], abs=1e-3)
    # two nearby tokens weigh twice as much as one: 2 cos(5°) at 95 and 2 cos(2°) at 2 degrees
    x = 2 * math.cos(math.radians(5)) * np.exp(1j * math.radians(95)) + 2 * math.cos(math.radians(2)) * np.exp(
        1j * math.radians(2)
    )
    assert degrees(pool_tokens(tokens, 2)) == pytest.approx([math.degrees(np.angle(x)), -120], abs=1e-3)


def greedy(tokens: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The same algorithm with lists of members and every cosine recomputed."""
    groups = [[token] for token in tokens]
    while len(groups) > count:
        sums = [sum(group) for group in groups]
        cosines = {
            (a, b): float(np.dot(sums[a], sums[b]) / np.linalg.norm(sums[a]) / np.linalg.norm(sums[b]))
            for a in range(len(groups))
            for b in range(a + 1, len(groups))
        }
        first, second = max(cosines, key=lambda pair: cosines[pair])
        groups[first] += groups.pop(second)
    return np.stack([sum(group) / np.linalg.norm(sum(group)) for group in groups])


@pytest.mark.parametrize("count", [1, 2, 5, 11])
def test_equals_merging_with_lists(count: int) -> None:
    tokens = functional.normalize(torch.randn(6, 12, 16, generator=torch.Generator().manual_seed(0)) + 0.5, dim=-1)
    pooled = pool_tokens(tokens, count)
    for found, section in zip(pooled, tokens.double().numpy(), strict=True):
        np.testing.assert_allclose(found, greedy(section, count), atol=1e-6)


def test_as_many_tokens_as_there_are_stay_as_they_are() -> None:
    tokens = at(10, 20, 30)
    assert torch.equal(pool_tokens(tokens, 3), tokens) and torch.equal(pool_tokens(tokens, 9), tokens)
    assert pool_tokens(tokens[:0], 2).shape == (0, 2, 2)


def test_equal_and_opposite_tokens() -> None:
    assert degrees(pool_tokens(at(30, 30, 30, 30), 2)) == pytest.approx([30, 30], abs=1e-3)
    assert torch.isfinite(pool_tokens(at(0, 180, 0, 180), 1)).all()
