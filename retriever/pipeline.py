"""The pipeline is a list of steps: start reading here. A new method is one more step in the list."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Generic, TypeVar

from retriever.protocols import EntityIndex, Step
from retriever.streams import own_stream
from retriever.types import Candidate, Query, RetrievalResult

IndexT = TypeVar("IndexT", bound=EntityIndex)


class Retriever(Generic[IndexT]):
    """Runs steps one after the other over a whole batch of queries.

    Args:
        steps: The first one starts the lists of candidates, the others rescore them; each has a name of its own.
        index: Where the entities are that the candidates' rows name.

    Raises:
        ValueError: There are no steps, or two share a name.
    """

    def __init__(self, steps: Sequence[Step], index: IndexT) -> None:
        names = [step.name for step in steps]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a pipeline needs steps with a name each, got {names}")
        self.steps, self.index = tuple(steps), index
        self._streams = [own_stream() for _ in steps]

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result for each query, in order."""
        candidates: list[list[Candidate]] = [[] for _ in queries]
        timings: dict[str, float] = {}
        rankings: list[dict[str, list[tuple[int, float]]]] = [{} for _ in queries]
        finishes = []
        for step, stream in zip(self.steps, self._streams, strict=True):
            started = time.perf_counter()
            with stream():
                finishes.append(step.start(queries))
            timings[step.name] = (time.perf_counter() - started) * 1000
        for step, stream, finish in zip(self.steps, self._streams, finishes, strict=True):
            started = time.perf_counter()
            with stream():
                candidates = finish(candidates)
            timings[step.name] += (time.perf_counter() - started) * 1000
            for ranking, found in zip(rankings, candidates, strict=True):
                ranking[step.name] = [(candidate.row, candidate.score) for candidate in found]
        return [
            RetrievalResult(query.id, found, dict(timings), ranking)
            for query, found, ranking in zip(queries, candidates, rankings, strict=True)
        ]
