"""The pipeline, a list of steps: start reading here. To add a method, add a step to the list."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import torch
from PIL import Image

from retriever.asking import EntityIndex
from retriever.borders import edges_of, load_query_image, without_border
from retriever.crops import Propose, retrieve_crops
from retriever.looks import GAIN, Refine, declined, with_key
from retriever.protocols import Finish, Step
from retriever.recognition import PLAIN, Recognition, contrast, is_declined
from retriever.streams import Turns, free_threads, nothing_left_behind, own_stream, side_by_side
from retriever.turning import retrieve_turned
from retriever.types import Candidate, Crop, Query, RetrievalResult

IndexT = TypeVar("IndexT", bound=EntityIndex)
_Stage = tuple[Step, Callable[[], AbstractContextManager[object]]]


class Retriever(Generic[IndexT]):
    """Runs its steps one after the other on a whole batch of queries (implements `PipelinedRetriever`).

    Assign to `steps` to add, drop or replace one; any object with a `name` and a `start` is a `Step`:

        retriever.steps = [*retriever.steps, NameVote()]
        retriever.steps = [Mine() if step.name == "step3" else step for step in retriever.steps]

    Batches in progress finish with the steps they began with.

    A CPU works on one batch at a time. On a GPU, the next batch runs its first steps while a batch is in its last one;
    no step ever works on two batches.

    Args:
        steps: The first step finds the candidates, the others rescore them; each has its own name.
        index: Holds the entities that the candidates' rows refer to.
        recognition: Estimates the probability that the best candidate is right; without it, results have none.
        pin: Returns a context in which the index does not change for this thread and the steps that it starts. The
            context yields an object that keeps the rows readable as long as it is held. Every batch runs in one.
        trim_borders: Whether to cut uniform borders off query images.
        splits: Whether a batch may be split across cores; not if a step knows its batch in advance.
        device: Where the steps' models are.
        propose: Says which parts of an image to search if it is not recognized (`retriever.crops`).
        refine: Improves results before other views of images are searched (`retriever.label_reading`).

    Attributes:
        models: Any other code that runs the models must do so in `with retriever.models`; no batch is in a step
            meanwhile.
        threads: How many threads a batch may use on a CPU; by default all that are free (`free_threads`).
        mixed: Retrieves for a batch in which questions have no image, several, follow others, or name what their image
            does not show; without it, none may.

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
        device: torch.device | str = "cpu",
        propose: Propose | None = None,
        refine: Refine | None = None,
    ) -> None:
        self.index = index
        self.refine = refine
        self.propose = propose
        self.trim_borders = trim_borders
        self.recognition = recognition
        self.device = torch.device(device)
        self.models = Turns(2 if self.device.type == "cuda" else 1)
        self.threads: int | None = None
        self.mixed: Callable[[Sequence[Query], Callable[[], object]], list[RetrievalResult]] | None = None
        self.pin, self._splits = pin, splits
        self.steps = steps
        self._entered = self._stages

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
        self._stages: list[_Stage] = [(step, own_stream(self.device)) for step in steps]

    @property
    def in_flight(self) -> int:
        """How many batches can be in progress at once: 1 on a CPU, 2 on a GPU."""
        return len(self.models)

    def retrieve(
        self, queries: Sequence[Query], steps: int | None = None, free: Callable[[], object] = bool
    ) -> list[RetrievalResult]:
        """Returns one result per query, in order.

        Images that are not surely recognized are searched again by the words on them (`retriever.label_reading`), and
        those that are not recognized then turned (`retriever.turning`) and in parts (`retriever.crops`), if the
        recognition allows it. On a CPU with cores to spare, each core takes a share of the queries; the steps of a
        single query start side by side. On a GPU, the last step starts when the others have finished.

        Args:
            queries: The queries.
            steps: How many of the steps to run; by default all. With fewer, `recognized` stays `None`.
            free: Called as soon as another batch may begin, if that is before this one ends.
        """
        if self.mixed is not None and (steps is None or any(q.before or q.more or not q.image.width for q in queries)):
            return self.mixed(queries, free)
        if any(query.more for query in queries):
            raise ValueError("a question has several images, which this retriever has no way to search (mixed)")
        return self.retrieve_images(queries, steps, free)

    def retrieve_images(
        self, queries: Sequence[Query], steps: int | None = None, free: Callable[[], object] = bool
    ) -> list[RetrievalResult]:
        """Returns one result per query about one image alone, as `retrieve`."""
        if steps is None and self.recognition is not None:
            queries = [with_key(query) for query in queries]
        shown = [without_border(query) for query in queries] if self.trim_borders else queries
        results = self._retrieve(shown, steps, free)
        if steps is not None or self.recognition is None:
            return results
        if self.refine is not None:
            results = self.refine(self._retrieve, queries, shown, results, self.recognition)
        small, gain = declined(shown, results, self.recognition), GAIN if self.propose else 0.0
        found = retrieve_turned(self._retrieve, queries, small, results, self.recognition, gain, self.refine)
        found = retrieve_crops(self._retrieve, small, found, self.recognition, gain, self.propose and self._proposed)
        return [
            replace(result, crop=_within(query.image, result.crop))
            if result.crop and query.image is not part.image
            else result
            for query, part, result in zip(queries, shown, found, strict=True)
        ]

    def _proposed(self, query: Query, crops: Sequence[Crop]) -> Sequence[float]:
        assert self.propose is not None
        with self.models.batch(), self.pin(), nothing_left_behind(self.device):
            return self.propose(query, crops)

    def _retrieve(
        self, queries: Sequence[Query], steps: int | None, free: Callable[[], object] = bool
    ) -> list[RetrievalResult]:
        with self.models.batch() as move_on, self.pin() as version, nothing_left_behind(self.device):
            stages = self._stages
            if stages is not self._entered:  # replaced; the batch ahead may be in a step that is now in the first part
                self.models.settle()
                self._entered = stages
            threads = 1 if self.in_flight > 1 else self.threads or free_threads()
            shares = [_Share(part) for part in _split(queries, threads if self._splits else 1)]
            chosen, first = stages[:steps], len(stages) - (self.in_flight - 1)
            _run(shares, chosen[:first], threads)
            if chosen[first:]:
                move_on()
                free()
                _run(shares, chosen[first:], threads)
            complete = len(chosen) == len(stages)
            return [result for share in shares for result in self._results(share, complete, version)]

    def _results(self, share: _Share, complete: bool, version: object) -> list[RetrievalResult]:
        return [
            RetrievalResult(
                query.id,
                ranked,
                dict(share.timings),
                ranking,
                recognized=self._recognized(query, ranked) if complete else None,
                filter=dict(query.options.filter) or None,
                version=version,
            )
            for query, ranked, ranking in zip(share.queries, share.candidates, share.rankings, strict=True)
        ]

    def _recognized(self, query: Query, ranked: Sequence[Candidate]) -> float | None:
        """Returns the probability that the best candidate is right, or `None` if the query sets its own alpha.

        The recognition was fitted to the profile's alpha. A plain image can only be of a plain thing.
        """
        if self.recognition is None or query.options.alpha is not None:
            return None
        found = self.recognition.probability(ranked)
        if not is_declined(found, self.recognition.threshold):
            shown, path = contrast(query.image), self.index.image_path(ranked[0].row)
            if shown < PLAIN and (path is None or shown < contrast(load_query_image(path, self.trim_borders)) / 2):
                return 0.0
        return found


class _Share:
    """Queries that one thread takes through the steps, with what the steps have found so far."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.queries = queries
        self.candidates: list[list[Candidate]] = [[] for _ in queries]
        self.timings: dict[str, float] = {}
        self.rankings: list[dict[str, list[tuple[int, float]]]] = [{} for _ in queries]

    def run(self, stages: Sequence[_Stage], threads: int) -> None:
        """Starts all steps, side by side where threads are free, and then finishes them one after the other."""
        finishes = []
        with side_by_side([partial(_start, step, stream, self.queries) for step, stream in stages], threads) as starts:
            for (step, _), start in zip(stages, starts, strict=True):
                started = time.perf_counter()
                finishes.append(start())
                self.timings[step.name] = (time.perf_counter() - started) * 1000
        for (step, stream), finish in zip(stages, finishes, strict=True):
            started = time.perf_counter()
            with stream():
                self.candidates = finish(self.candidates)
            self.timings[step.name] += (time.perf_counter() - started) * 1000
            for ranking, ranked in zip(self.rankings, self.candidates, strict=True):
                ranking[step.name] = [(candidate.row, candidate.score) for candidate in ranked]


def _run(shares: Sequence[_Share], stages: Sequence[_Stage], threads: int) -> None:
    """Runs steps on the shares of a batch, side by side."""
    calls = [partial(share.run, stages, threads // len(shares)) for share in shares]
    with side_by_side(calls, threads) as ends:
        for end in ends:
            end()


def _split(queries: Sequence[Query], shares: int) -> list[Sequence[Query]]:
    """Splits queries into at most `shares` consecutive shares whose sizes differ by at most one; none is empty."""
    shares = min(len(queries), shares)
    bounds = [len(queries) * number // shares for number in range(shares + 1)] if shares else [0]
    return [queries[start:end] for start, end in itertools.pairwise(bounds)]


def _within(image: Image.Image, crop: Crop) -> Crop:
    """Returns a crop of a trimmed image as a crop of the image."""
    left, top, right, bottom = edges_of(image) or (0, 0, *image.size)
    wide, high = right - left, bottom - top
    x1, y1, x2, y2 = crop
    return (
        (left + x1 * wide) / image.width,
        (top + y1 * high) / image.height,
        (left + x2 * wide) / image.width,
        (top + y2 * high) / image.height,
    )


def _start(step: Step, stream: Callable[[], AbstractContextManager[object]], queries: Sequence[Query]) -> Finish:
    with stream():
        return step.start(queries)
