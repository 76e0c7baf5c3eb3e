"""Groups of texts with the least padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from training.reranker.batches import PASS_COST, least_padding


def cost(groups: Sequence[Sequence[int]], pass_cost: int) -> int:
    return sum(len(group) * max(group) + pass_cost for group in groups)


def least_cost(lengths: Sequence[int], budget: int, pass_cost: int) -> int:
    """Tries every way to cut the sorted lengths."""
    ordered = sorted(lengths)
    found = []
    for count in range(len(ordered)):
        for cuts in itertools.combinations(range(1, len(ordered)), count):
            bounds = [0, *cuts, len(ordered)]
            groups = [ordered[first:last] for first, last in itertools.pairwise(bounds)]
            if all(len(group) == 1 or len(group) * max(group) <= budget for group in groups):
                found.append(cost(groups, pass_cost))
    return min(found)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_way_costs_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, int(rng.integers(1, 11))).tolist()
    budget, pass_cost = int(rng.integers(20, 400)), int(rng.integers(0, 80))
    groups = least_padding(lengths, budget, pass_cost)
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    of_lengths = [[lengths[position] for position in group] for group in groups]
    assert all(len(group) == 1 or len(group) * max(group) <= budget for group in of_lengths)
    assert cost(of_lengths, pass_cost) == least_cost(lengths, budget, pass_cost)


def test_equal_texts_share_as_few_passes_as_fit() -> None:
    assert [len(group) for group in least_padding([100] * 50, 2000)] == [10, 20, 20]
    assert least_padding([], 2000) == []


def test_a_step_of_the_recipe_takes_three_passes() -> None:
    """136 pairs with sections of a median of 156 tokens, as `benchmarks.training_data` generates them."""
    rng = np.random.default_rng(0)
    lengths = [44] * 8 + [32 + min(512, int(length)) for length in rng.lognormal(np.log(156), 0.8, 128)]
    groups = least_padding(lengths, 32_768)
    padded = sum(len(group) * max(lengths[position] for position in group) for group in groups)
    assert len(groups) == 3 and padded < 1.4 * sum(lengths)
    assert padded / len(groups) > PASS_COST
