"""Fits `retriever.recognition` for a set of models: when is the best candidate what the image shows?

Every question is asked twice, the second time without its gold entities, as if the index lacked them. This shows what
scores look like for unknown entities without building a second index.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.datasets import Question, find_query_image
from evaluation.recognition_fit import FOLDS, Trial, fit
from retriever.image_cache import set_content
from retriever.images import load_image
from retriever.protocols import QueryRetriever
from retriever.recognition import signs_of
from retriever.types import Options, Query, RetrievalResult

logger = logging.getLogger(__name__)


BATCH = 32
"""Questions per batch."""


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


def report(trials: Sequence[Trial], threshold: float = 0.5) -> Report:
    """Measures recognition on unseen images by twofold cross-validation: fit on one half, test on the other."""
    answered: list[tuple[Trial, bool]] = []
    for fold in range(FOLDS):
        recognition = fit([trial for trial in trials if trial.fold != fold], threshold)
        answered += [(trial, recognition.of(trial.signs) >= threshold) for trial in trials if trial.fold == fold]
    held = [given for trial, given in answered if trial.held]
    absent = [given for trial, given in answered if not trial.held]
    verdicts = [trial.right for trial, given in answered if given]
    return Report(
        sum(held) / max(1, len(held)),
        1 - sum(absent) / max(1, len(absent)),
        1 - sum(verdicts) / max(1, len(verdicts)),
        len(held),
    )
