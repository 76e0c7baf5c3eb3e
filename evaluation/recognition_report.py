"""How well recognition does on images that it was not fitted to, and how much the words on them tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from evaluation.recognition import FOLDS, Trial, fit, logit
from retriever.recognition import OF_WORDS, Recognition

FEWEST = 20
"""With fewer images whose words tell entities apart, how much words tell would be chance."""
_MOST = 50.0
_RIDGE = 1e-3
"""Keeps the coefficient from growing without end if words are always right."""


def with_words(trials: Sequence[Trial], recognition: Recognition, unknown: float) -> Recognition:
    """Returns a recognition with the coefficient of words that makes the verdicts most likely, at least 0.

    All other coefficients stay: words are read only on images that they leave unsure.

    Args:
        trials: Trials with the words on the images that `recognition` is not sure of.
        recognition: Fitted to images alone.
        unknown: The coefficient if words tell entities apart on fewer than `FEWEST` images.
    """
    read = [trial for trial in trials if trial.signs.lead_w]
    if len({trial.image_id for trial in read}) < FEWEST:
        return _weighing(recognition, unknown)
    alone = _weighing(recognition, 0.0)
    lead = torch.tensor([trial.signs.lead_w for trial in read], dtype=torch.float64)
    base = torch.tensor([logit(alone.of(trial.signs)) for trial in read], dtype=torch.float64)
    right = torch.tensor([float(trial.right) for trial in read], dtype=torch.float64)
    low, high = 0.0, _MOST
    for _ in range(40):  # the likelihood has one maximum
        weight = (low + high) / 2
        slope = ((torch.sigmoid(base + weight * lead) - right) * lead + 2 * _RIDGE * weight * lead.square()).mean()
        low, high = (low, weight) if slope > 0 else (weight, high)
    return _weighing(recognition, round(low, 4))


def _weighing(recognition: Recognition, words: float) -> Recognition:
    return replace(recognition, weights=replace(recognition.weights, **{OF_WORDS: words}))


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


def report(trials: Sequence[Trial], threshold: float = 0.5, read: Sequence[Trial] = (), unknown: float = 0.0) -> Report:
    """Measures recognition on unseen images by twofold cross-validation: fit on one half, test on the other.

    Args:
        trials: Trials by the images alone.
        threshold: The threshold.
        read: The same with words, if they are read.
        unknown: See `with_words`.
    """
    answered: list[tuple[Trial, bool]] = []
    for fold in range(FOLDS):
        recognition = fit([trial for trial in trials if trial.fold != fold], threshold)
        recognition = with_words([trial for trial in read if trial.fold != fold], recognition, unknown)
        tested = [trial for trial in read or trials if trial.fold == fold]
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
