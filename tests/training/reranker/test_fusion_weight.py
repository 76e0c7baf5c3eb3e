"""Choosing alpha from few questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from retriever.types import Candidate
from training.reranker.fusion_weight import ScoredQuestion, best_alpha


def question(right: list[bool], sim_c: Sequence[float | None], sim_m: Sequence[float]) -> ScoredQuestion:
    candidates = [Candidate(row, *sims) for row, sims in enumerate(zip(sim_c, sim_m, strict=True))]
    return ScoredQuestion(0, candidates, right, evidence=0.5)


def questions(weights: tuple[float, float], count: int = 3000) -> list[ScoredQuestion]:
    """Draws gold entities from softmax(w1 * sim_c + w2 * sim_m), the model that is fitted."""
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(count):
        sims = generator.normal(0, 0.2, (2, 10))
        gold = int((weights @ sims + generator.gumbel(size=10)).argmax())
        drawn.append(question([place == gold for place in range(10)], sims[0].tolist(), sims[1].tolist()))
    return drawn


@pytest.mark.parametrize(
    ("weights", "alpha"), [((14.0, 6.0), 0.7), ((5.0, 15.0), 0.25), ((20.0, 0.0), 1.0), ((0.0, 20.0), 0.0)]
)
def test_alpha_is_the_share_of_step_1_s_weight(weights: tuple[float, float], alpha: float) -> None:
    assert best_alpha(questions(weights)) == pytest.approx(alpha, abs=0.051)


def test_a_step_that_is_always_right_gets_all_the_weight() -> None:
    always = [question([True, False], [0.9, 0.1], [0.3, 0.3]) for _ in range(5)]
    assert best_alpha(always) == 1.0  # however far apart: weights stay finite


def test_a_missing_score_is_the_lowest_of_its_list() -> None:
    sparse = questions((14.0, 6.0))
    for drawn in sparse:
        drawn.candidates[3].sim_m = None
    assert best_alpha(sparse) == pytest.approx(0.75, abs=0.051)


def test_without_scores_of_step_1_there_is_none() -> None:
    assert best_alpha([question([True, False], [None, None], [0.2, 0.1])]) is None
    assert best_alpha([question([False, False], [0.2, 0.1], [0.2, 0.1])]) is None  # step 1 missed it
    assert best_alpha([]) is None
