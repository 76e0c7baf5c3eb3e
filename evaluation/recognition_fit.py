"""Fits `retriever.recognition` to results of which it is known whether they are right."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from retriever.recognition import SIGNS, Recognition, Signs

_RIDGE = 1e-4
"""Keeps the coefficients of standardized signs finite if these separate right from wrong perfectly."""
FOLDS = 2
CROP = 0.7
"""`Recognition.crop_threshold` as a fitted probability: the best of several crops scores higher by chance than a whole
image, and nobody asked about a part."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A question asked once, with or without its gold entities in the index, and the signs in its scores.

    Attributes:
        image_id: The query's image.
        signs: The signs.
        held: Whether the index held a gold entity.
        right: Whether the best candidate was one.
    """

    image_id: str
    signs: Signs
    held: bool
    right: bool

    @property
    def fold(self) -> int:
        """Which half of the images its image is in, 0 or 1."""
        return hashlib.sha256(self.image_id.encode()).digest()[0] % FOLDS


def fit(trials: Sequence[Trial], threshold: float = 0.5, ridge: float = _RIDGE) -> Recognition:
    """Fits a logistic regression to the verdicts of the trials (maximum likelihood).

    Args:
        trials: The trials.
        threshold: The threshold of the result.
        ridge: Weight of the squares of the coefficients of standardized signs.

    Raises:
        ValueError: All trials have the same verdict.
    """
    right = torch.tensor([float(trial.right) for trial in trials], dtype=torch.float64)
    if not 0 < float(right.sum()) < len(right):
        raise ValueError(
            "calibration needs images that retrieval gets right and images that it gets wrong in both halves of the "
            "data; use more questions"
        )
    values = torch.tensor([[getattr(trial.signs, name) for name in SIGNS] for trial in trials], dtype=torch.float64)
    mean, spread = values.mean(0), values.std(0).clamp(min=1e-9)
    scaled = (values - mean) / spread
    weights = torch.zeros(len(SIGNS) + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = scaled @ weights[1:] + weights[0]
        value = torch.nn.functional.binary_cross_entropy_with_logits(logits, right)
        value = value + ridge * weights[1:].square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    found = weights.detach()
    slopes = found[1:] / spread
    bias = float(found[0] - (slopes * mean).sum())
    return Recognition(bias, Signs(**dict(zip(SIGNS, slopes.tolist(), strict=True))), threshold)


def logit(probability: float) -> float:
    """Returns the logarithm of the odds."""
    inside = min(max(probability, 1e-12), 1 - 1e-12)
    return math.log(inside / (1 - inside))


def probability(logit: float) -> float:
    """Returns the inverse of `logit`."""
    return 1 / (1 + math.exp(-logit))
