"""How well recognition does on images that it was not fitted to, and how much words and keypoints on them tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from evaluation.recognition import FOLDS, Trial, fit, logit
from retriever.recognition import APART, Recognition, Signs

FEWEST = 20
"""Of a sign that tells entities apart on fewer images, how much it tells would be chance."""
_MOST, _ROUNDS = 50.0, 5
_RIDGE = 1e-3
"""Keeps a coefficient from growing without end if its sign is always right."""


def with_apart(trials: Sequence[Trial], recognition: Recognition, known: Signs) -> Recognition:
    """Returns a recognition with the coefficients of `APART` that make the verdicts most likely, at least 0.

    All others stay: images are read and verified only if these leave them unsure.

    Args:
        trials: Trials of images that were read and verified where `recognition` is not sure.
        recognition: Fitted to other signs.
        known: The coefficients of signs that tell entities apart on fewer than `FEWEST` images.
    """
    for name in APART * _ROUNDS:
        telling = [trial for trial in trials if getattr(trial.signs, name)]
        few = len({trial.image_id for trial in telling}) < FEWEST
        alone = _weighing(recognition, name, 0.0)
        recognition = _weighing(alone, name, getattr(known, name) if few else _fitted(telling, alone, name))
    return recognition


def _fitted(trials: Sequence[Trial], recognition: Recognition, name: str) -> float:
    """Returns the coefficient of a sign, given those of the others."""
    sign = torch.tensor([getattr(trial.signs, name) for trial in trials], dtype=torch.float64)
    base = torch.tensor([logit(recognition.of(trial.signs)) for trial in trials], dtype=torch.float64)
    right = torch.tensor([float(trial.right) for trial in trials], dtype=torch.float64)
    low, high = 0.0, _MOST
    for _ in range(40):  # the likelihood has one maximum
        weight = (low + high) / 2
        slope = ((torch.sigmoid(base + weight * sign) - right) * sign + 2 * _RIDGE * weight * sign.square()).mean()
        low, high = (low, weight) if slope > 0 else (weight, high)
    return round(low, 4)


def _weighing(recognition: Recognition, name: str, weight: float) -> Recognition:
    return replace(recognition, weights=replace(recognition.weights, **{name: weight}))


@dataclass(frozen=True, slots=True)
class Report:
    """Recognition measured on images that it was not fitted to.

    Attributes:
        answered: Share of the questions about entities in the index that are answered.
        declined: Share of the questions about entities not in the index that are declined.
        wrong: Share of wrong entities among the answered questions of both kinds.
        n: Number of questions; each counts once with its entity in the index and once without.
    """

    answered: float
    declined: float
    wrong: float
    n: int


def report(
    trials: Sequence[Trial],
    threshold: float = 0.5,
    unsure: Sequence[Trial] = (),
    known: Signs = Signs(),  # noqa: B008  frozen
) -> Report:
    """Measures recognition on unseen images by twofold cross-validation: fit on one half, test on the other.

    Args:
        trials: Trials by the images alone.
        threshold: The threshold.
        unsure: The same, read and verified, if that is done.
        known: See `with_apart`.
    """
    answered: list[tuple[Trial, bool]] = []
    for fold in range(FOLDS):
        recognition = fit([trial for trial in trials if trial.fold != fold], threshold)
        recognition = with_apart([trial for trial in unsure if trial.fold != fold], recognition, known)
        tested = [trial for trial in unsure or trials if trial.fold == fold]
        answered += [(trial, recognition.of(trial.signs) >= threshold) for trial in tested]
    held = [given for trial, given in answered if trial.held]
    absent = [given for trial, given in answered if not trial.held]
    verdicts = [trial.right for trial, given in answered if given]
    return Report(
        sum(held) / max(1, len(held)),
        1 - sum(absent) / max(1, len(absent)),
        1 - sum(verdicts) / max(1, len(verdicts)),
        len(held),
    )
