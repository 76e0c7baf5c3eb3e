"""Fits `retriever.recognition` for a set of models: when is the best candidate what the image shows?

Every question is asked twice, the second time without its gold entities, as if the index lacked them. This shows what
scores look like for unknown entities without building a second index.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluation.datasets import Question, find_query_image
from retriever.asking import QueryRetriever
from retriever.image_cache import set_content
from retriever.images import load_image
from retriever.recognition import SIGNS, Recognition, Signs, signs_of
from retriever.types import Options, Query, RetrievalResult

logger = logging.getLogger(__name__)

BATCH = 32
"""Questions per batch."""
_RIDGE = 1e-4
"""Keeps the coefficients of standardized signs finite if these separate right from wrong perfectly."""
_STEPS, _NEAR = 100, 1e-9
"""Most steps of Newton's method, and how small the last one is."""
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
    right = np.array([trial.right for trial in trials], np.float64)
    if not 0 < right.sum() < len(right):
        raise ValueError(
            "calibration needs images that retrieval gets right and images that it gets wrong in both halves of the "
            "data; use more questions"
        )
    values = np.array([[getattr(trial.signs, name) for name in SIGNS] for trial in trials], np.float64)
    mean, spread = values.mean(0), np.maximum(values.std(0, ddof=1), 1e-9)
    bias, *slopes = _regression((values - mean) / spread, right, ridge)
    own = Signs(**dict(zip(SIGNS, (slopes / spread).tolist(), strict=True)))
    return Recognition(float(bias - (slopes / spread * mean).sum()), own, threshold)


def _regression(values: NDArray[np.float64], right: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Fits a logistic regression by Newton's method; returns its intercept and coefficients, [1 + D].

    Args:
        values: The standardized signs, [N, D].
        right: The verdicts, 0 or 1, [N].
        ridge: Weight of the squares of the coefficients, not of the intercept.
    """
    design = np.hstack([np.ones((len(values), 1)), values])
    penalty = ridge * np.array([0.0, *np.ones(values.shape[1])])

    def loss(weights: NDArray[np.float64]) -> float:
        logits = design @ weights
        return float((np.logaddexp(0, logits) - right * logits).mean() + penalty @ weights**2)

    weights = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        shares = (1 + np.tanh(design @ weights / 2)) / 2  # the logistic function, which does not overflow so
        gradient = design.T @ (shares - right) / len(right) + 2 * penalty * weights
        curvature = design.T * (shares * (1 - shares)) @ design / len(right) + 2 * np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > _NEAR:
            step /= 2
        weights = weights - step
        if np.abs(step).max() <= _NEAR:
            break
    return weights


def logit(probability: float) -> float:
    """Returns the logarithm of the odds."""
    inside = min(max(probability, 1e-12), 1 - 1e-12)
    return math.log(inside / (1 - inside))


def probability(logit: float) -> float:
    """Returns the inverse of `logit`."""
    return 1 / (1 + math.exp(-logit))


def collect(
    retriever: QueryRetriever,
    questions: Sequence[Question],
    query_images: Path,
    done: Callable[[int], None] = lambda count: None,
) -> Iterator[Trial]:
    """Yields two trials for each question whose image is readable: with the whole index, and without gold entities.

    Args:
        retriever: A pipeline whose first step honors `Options.exclude`, without a recognition, so that it searches no
            parts of images.
        questions: Questions with gold entities.
        query_images: The folder of their images.
        done: Called with the number of questions after each batch.
    """
    for start in range(0, len(questions), BATCH):
        part = questions[start : start + BATCH]
        asked = list(_queries(retriever, part, query_images))
        both = [query for _, query, _ in asked]
        both += [replace(query, options=Options(exclude=gold)) for _, query, gold in asked]
        results = retriever.retrieve(both) if both else []
        for number, result in enumerate(results):
            question, _, gold = asked[number % len(asked)]
            trial = _trial(question, result, gold, held=bool(gold) and number < len(asked))
            if trial is not None:
                yield trial
        done(len(part))


def _queries(
    retriever: QueryRetriever, questions: Sequence[Question], folder: Path
) -> Iterator[tuple[Question, Query, tuple[int, ...]]]:
    for question in questions:
        path = find_query_image(folder, question.image_id)
        try:
            if path is None:
                raise ValueError(f"{folder}: no image {question.image_id!r}")
            image = load_image(path)
            set_content(image, question.image_id)  # models with a cache encode it once for both trials
        except ValueError as error:
            logger.warning("%s: left out", error)
            continue
        rows = [retriever.index.row_of(entity) for entity in question.entity_ids]
        yield question, Query(image, question.question, question.id), tuple(row for row in rows if row is not None)


def _trial(question: Question, result: RetrievalResult, gold: tuple[int, ...], held: bool) -> Trial | None:
    signs = signs_of(result.candidates)
    if signs is None:
        return None
    return Trial(question.image_id, signs, held, held and result.candidates[0].row in gold)
