"""Finds alpha, the weight of step 1 in equation 5, from a small number of questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch.nn.utils.rnn import pad_sequence

from retriever.fusion import fuse

GRID = [i / 20 for i in range(21)]
"""The values that a weight may have."""
_RIDGE = 1e-5
"""Keeps the weights finite if the scores separate correct from wrong perfectly."""


class Scored(Protocol):
    """A question with the scores of what step 1 found for its image."""

    @property
    def right(self) -> list[bool]:
        """Whether each entity is gold."""

    @property
    def sim_c(self) -> list[float | None]:
        """The entities' scores in step 1, `None` if unknown."""

    @property
    def sim_m(self) -> list[float | None]:
        """The entities' scores in step 2, `None` without an image or sections."""


def best_alpha(scored: Sequence[Scored]) -> float | None:
    """Returns the alpha of `GRID` that fits best, or `None` if the scores of step 1 are unknown.

    The fit is a conditional logit: it maximizes the likelihood of the gold entity under softmax(w1 * sim_c + w2 *
    sim_m) over the candidates, and alpha = w1 / (w1 + w2). It varies less between small validation sets than the alpha
    with the highest Recall@1 (docs/log.md has the figures).
    """
    found = [question for question in scored if any(question.right) and not all(question.right)]
    if not any(sim is not None for question in found for sim in question.sim_c):
        return None
    scores = pad_sequence(
        [
            torch.tensor([fuse(q.sim_c, q.sim_m, 1.0), fuse(q.sim_c, q.sim_m, 0.0)], dtype=torch.float64).T
            for q in found
        ],
        batch_first=True,
    )  # [questions, candidates, 2]
    listed = pad_sequence([torch.ones(len(q.right), dtype=torch.bool) for q in found], batch_first=True)
    gold = pad_sequence([torch.tensor(q.right) for q in found], batch_first=True)
    weights = torch.full((2,), 10.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        shares = (scores @ weights).masked_fill(~listed, -torch.inf).log_softmax(1)
        value = -shares.masked_fill(~gold, -torch.inf).logsumexp(1).mean() + _RIDGE * weights.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    first, second = (max(0.0, weight) for weight in weights.tolist())
    if first + second == 0:
        return None
    return min(GRID, key=lambda alpha: abs(alpha - first / (first + second)))
