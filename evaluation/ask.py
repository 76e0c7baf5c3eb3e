"""Asks the questions of a run batch by batch; a failed query does not fail its batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from evaluation.datasets import Question, find_query_image
from evaluation.judge import LearnedJudge, judge_all
from evaluation.recording import make_record
from evaluation.records import QueryRecord
from retriever.asking import QueryRetriever
from retriever.images import load_image
from retriever.results import Retrieval
from retriever.types import Generation, GenerationRequest, Query

T = TypeVar("T")
R = TypeVar("R")
Generate = Callable[[Sequence[GenerationRequest]], list[Generation]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks batches of questions.

    Attributes:
        retriever: The retriever.
        generate: The generator; `None` for retrieval alone.
        images: The folder of query images.
    """

    retriever: QueryRetriever
    generate: Generate | None
    images: Path

    def ask(self, batch: Sequence[Question], bem: LearnedJudge | None = None) -> list[QueryRecord]:
        """Retrieves, answers and judges a batch.

        A query fails if its image is missing or unreadable, or if the retriever or generator raises for it alone.

        Returns:
            One record per question, in order.
        """
        failures: dict[str, str] = {}
        queries = [query for question in batch if (query := self._query(question, failures))]
        start = time.perf_counter()
        results = _each(self.retriever.retrieve, queries, [query.id for query in queries], failures, "retrieval")
        spent = {"batch": float(len(queries)), "retrieve": _since(start)}

        generations: dict[str, Generation] = {}
        if self.generate is not None:
            requests = {
                query.id: Retrieval.of(self.retriever.index, query, results[query.id]).request()
                for query in queries
                if query.id in results
            }
            start = time.perf_counter()
            generations = _each(self.generate, list(requests.values()), list(requests), failures, "generator")
            spent["generate"] = _since(start)
        answers = [generations[question.id].answer if question.id in generations else None for question in batch]
        scores = judge_all(batch, answers, bem) if self.generate is not None else [None] * len(batch)
        return [
            make_record(
                question,
                self.retriever.index,
                results.get(question.id),
                generations.get(question.id),
                with_generator=self.generate is not None,
                failed=failures.get(question.id),
                timings_ms=spent | (results[question.id].timings_ms if question.id in results else {}),
                scores=answer_scores,
            )
            for question, answer_scores in zip(batch, scores, strict=True)
        ]

    def _query(self, question: Question, failures: dict[str, str]) -> Query | None:
        path = find_query_image(self.images, question.image_id)
        if path is None:
            failures[question.id] = f"image: {question.image_id!r} is not in the folder of query images"
            return None
        try:
            return Query(load_image(path), question.question, question.id)
        except ValueError as error:
            failures[question.id] = f"image: {error}"
            return None


def _each(
    do: Callable[[Sequence[T]], list[R]], items: list[T], ids: list[str], failures: dict[str, str], stage: str
) -> dict[str, R]:
    """Returns results by id. If the batch fails, tries its items one by one and adds the reasons to `failures`."""
    if not items:
        return {}
    try:
        return dict(zip(ids, do(items), strict=True))
    except Exception as error:  # models and servers can raise anything; one failed query must not end the run
        logger.warning("%s of %d queries failed: %s", stage, len(items), error)
        if len(items) == 1:
            failures[ids[0]] = f"{stage}: {type(error).__name__}: {error}"
            return {}
    results: dict[str, R] = {}
    for item, item_id in zip(items, ids, strict=True):
        results |= _each(do, [item], [item_id], failures, stage)
    return results


def _since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)
