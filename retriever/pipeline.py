"""The pipeline, a list of steps: start reading here. To add a method, add a step to the list."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Generic, TypeVar

from retriever.borders import without_border
from retriever.protocols import EntityIndex, Finish, Step
from retriever.recognition import Recognition
from retriever.streams import free_threads, own_stream, side_by_side
from retriever.types import Candidate, Query, RetrievalResult

IndexT = TypeVar("IndexT", bound=EntityIndex)
_Stage = tuple[Step, Callable[[], AbstractContextManager[object]]]


class Retriever(Generic[IndexT]):
    """Runs its steps one after the other on a whole batch of queries (implements `QueryRetriever`).

    Assign to `steps` to add, drop or replace one; any object with a `name` and a `start` is a `Step`:

        retriever.steps = [*retriever.steps, NameVote()]
        retriever.steps = [Mine() if step.name == "step3" else step for step in retriever.steps]

    Batches in progress finish with the steps they began with.

    Args:
        steps: The first step finds the candidates, the others rescore them; each has its own name.
        index: Holds the entities that the candidates' rows refer to.
        recognition: Estimates the probability that the best candidate is right; without it, results have none.
        pin: Returns a context in which the index does not change for this thread and the steps that it starts. The
            context yields an object that keeps the rows readable as long as it is held. Every batch runs in one.
        trim_borders: Whether to cut uniform borders off query images.
        splits: Whether a batch may be split across cores; not if a step knows its batch in advance.

    Raises:
        ValueError: There are no steps, or two have the same name.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        index: IndexT,
        recognition: Recognition | None = None,
        pin: Callable[[], AbstractContextManager[object]] = nullcontext,
        trim_borders: bool = False,
        splits: bool = True,
    ) -> None:
        self.index = index
        self.trim_borders = trim_borders
        self.recognition = recognition
        self.models = threading.Lock()  # held during a batch; any other code that runs the models must hold it, too
        self._pin, self._splits = pin, splits
        self.steps = steps

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they run."""
        return tuple(step for step, _ in self._stages)

    @steps.setter
    def steps(self, steps: Sequence[Step]) -> None:
        names = [step.name for step in steps]
        if not names:
            raise ValueError("a pipeline needs at least one step, got none")
        if len(set(names)) != len(names):
            raise ValueError(f"every step needs a name of its own, got {', '.join(names)}")
        self._stages: list[_Stage] = [(step, own_stream()) for step in steps]

    def retrieve(self, queries: Sequence[Query], steps: int | None = None) -> list[RetrievalResult]:
        """Returns one result per query, in order.

        On a CPU with cores to spare, each core takes a share of the queries; the steps of a single query start side by
        side.

        Args:
            queries: The queries.
            steps: How many of the steps to run; by default all. With fewer, `recognized` stays `None`.
        """
        if self.trim_borders:
            queries = [without_border(query) for query in queries]
        with self.models, self._pin() as version:
            stages, threads = self._stages[:steps], free_threads()
            shares = min(len(queries), threads if self._splits else 1)
            share_of = partial(self._retrieve, stages=stages, version=version, threads=threads // max(shares, 1))
            calls = [partial(share_of, share) for share in _split(queries, shares)]
            with side_by_side(calls, threads) as results:
                return [result for share in results for result in share()]

    def _retrieve(
        self, queries: Sequence[Query], stages: Sequence[_Stage], version: object, threads: int
    ) -> list[RetrievalResult]:
        candidates: list[list[Candidate]] = [[] for _ in queries]
        timings: dict[str, float] = {}
        rankings: list[dict[str, list[tuple[int, float]]]] = [{} for _ in queries]
        finishes = []
        with side_by_side([partial(_start, step, stream, queries) for step, stream in stages], threads) as starts:
            for (step, _), start in zip(stages, starts, strict=True):
                started = time.perf_counter()
                finishes.append(start())
                timings[step.name] = (time.perf_counter() - started) * 1000
        for (step, stream), finish in zip(stages, finishes, strict=True):
            started = time.perf_counter()
            with stream():
                candidates = finish(candidates)
            timings[step.name] += (time.perf_counter() - started) * 1000
            for ranking, ranked in zip(rankings, candidates, strict=True):
                ranking[step.name] = [(candidate.row, candidate.score) for candidate in ranked]
        return [
            RetrievalResult(
                query.id,
                ranked,
                dict(timings),
                ranking,
                self._recognized(query, ranked) if len(stages) == len(self._stages) else None,
                version,
            )
            for query, ranked, ranking in zip(queries, candidates, rankings, strict=True)
        ]

    def _recognized(self, query: Query, ranked: Sequence[Candidate]) -> float | None:
        """Returns the probability that the best candidate is right, or `None` if the query sets its own alpha.

        The recognition was fitted to the profile's alpha.
        """
        if self.recognition is None or query.options.alpha is not None:
            return None
        return self.recognition.probability(ranked)


def _split(queries: Sequence[Query], shares: int) -> list[Sequence[Query]]:
    """Splits queries into consecutive shares whose sizes differ by at most one."""
    bounds = [len(queries) * number // shares for number in range(shares + 1)] if shares else [0]
    return [queries[start:end] for start, end in itertools.pairwise(bounds)]


def _start(step: Step, stream: Callable[[], AbstractContextManager[object]], queries: Sequence[Query]) -> Finish:
    with stream():
        return step.start(queries)
