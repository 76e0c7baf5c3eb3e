from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from retriever.maxsim import ScoreMode, max_sim, max_sim_ragged

QUERY = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
"""Over H: (0.6, 0.8) and (0, 1). Over its tokens: the first dimension becomes (1, 0), the second (4, 2) / sqrt(20)."""
SECTIONS = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.6, 0.8]]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # section 0: max(0.6, 0.8) and max(0, 1); section 1: max(-0.6, 1) and max(0, 0.8)
        ("cosine", [0.9, 0.9]),
        ("paper", [1.8, 1.8]),
        # query rows (1, 4/sqrt 20) and (0, 2/sqrt 20)
        ("compat", [(1 + 2 / 20**0.5) / 2, (0.6 + 0.8 * 4 / 20**0.5 + 0.8 * 2 / 20**0.5) / 2]),
    ],
)
def test_hand_computed(mode: ScoreMode, expected: list[float]) -> None:
    assert max_sim(QUERY, SECTIONS, mode).tolist() == pytest.approx(expected, abs=1e-6)


def brute(query: NDArray[np.float64], sections: NDArray[np.float64], mode: str) -> list[float]:
    axis = 0 if mode == "compat" else 1
    query = query / np.linalg.norm(query, axis=axis, keepdims=True)
    scores = []
    for section in sections:
        best = [max(math.fsum(a * b for a, b in zip(q, c, strict=True)) for c in section) for q in query]
        scores.append(math.fsum(best) if mode == "paper" else math.fsum(best) / len(best))
    return scores


@pytest.mark.parametrize("mode", ["cosine", "paper", "compat"])
def test_ragged_lists_equal_float64_brute_force(mode: ScoreMode) -> None:
    random = np.random.default_rng(0)
    queries = random.normal(size=(3, 8, 16))
    sections = []
    for count in (5, 0, 1):
        stored = random.normal(size=(count, 6, 16))
        sections.append(stored / np.linalg.norm(stored, axis=-1, keepdims=True))
    found = max_sim_ragged(torch.tensor(queries).float(), [torch.tensor(s).float() for s in sections], mode)
    for query, stored, scores in zip(queries, sections, found, strict=True):
        assert scores.tolist() == pytest.approx(brute(query, stored, mode), abs=1e-5)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="as many lists"):
        max_sim_ragged(QUERY[None], [])
    with pytest.raises(ValueError, match=r"length 2 .* length 3"):
        max_sim(QUERY, torch.zeros(1, 2, 3))
