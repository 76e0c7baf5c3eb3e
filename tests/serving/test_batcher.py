"""Batches of concurrent queries: grouping, isolated failures, and dead or stuck workers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PIL import Image

from retriever.image_cache import ImageCache
from retriever.types import Candidate, Query, RetrievalResult
from serving.admission import Admission
from serving.batcher import Batcher, Retrieve
from serving.errors import ApiError
from serving.metrics import Metrics
from serving.settings import ServingSettings


class Widths:
    """A retriever that returns the image's width; `poison` raises, `fatal` ends the worker, `gate` holds it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()

    def __call__(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        self.batches.append([query.id for query in queries])
        self.began.set()
        assert self.gate.wait(10)
        for query in queries:
            if query.question == "poison":
                raise ValueError(f"bad {query.id}")
            if query.question == "fatal":
                raise SystemExit("gone")
        return [RetrievalResult(query.id, [Candidate(query.image.width)], {"step": 1.0}) for query in queries]


def query(name: str, width: int = 1, question: str = "?") -> Query:
    return Query(Image.new("RGB", (width, 1)), question, name)


def batcher_of(retrieve: Retrieve, settings: ServingSettings) -> Batcher:
    admission = Admission(settings)
    return Batcher(retrieve, settings, admission, Metrics(admission, ImageCache(0)))


@asynccontextmanager
async def running(retrieve: Retrieve, **settings: Any) -> AsyncIterator[Batcher]:
    chosen = ServingSettings(**{"timeout_s": 5, **settings})
    batcher = batcher_of(retrieve, chosen)
    await batcher.start()
    try:
        yield batcher
    finally:
        if isinstance(retrieve, Widths):
            retrieve.gate.set()
        await batcher.stop()


@asynccontextmanager
async def held(
    widths: Widths, first: Query, **settings: Any
) -> AsyncIterator[tuple[Batcher, asyncio.Task[RetrievalResult]]]:
    """Yields a batcher whose first batch, of one query, waits at the gate."""
    widths.gate.clear()
    async with running(widths, **settings) as batcher:
        task = asyncio.create_task(batcher.submit(first))
        await until(widths.began.is_set)
        yield batcher, task


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_batched_is_single() -> None:
    async def test() -> None:
        widths = Widths()
        queries = [query(f"q{i}", width=i + 1) for i in range(6)]
        async with running(widths, max_batch=4) as batcher:
            together = await asyncio.gather(*map(batcher.submit, queries))
            alone = [await batcher.submit(q) for q in queries]
        assert together == alone
        assert [result.candidates[0].row for result in together] == [1, 2, 3, 4, 5, 6]
        assert widths.batches[:2] == [["q0", "q1", "q2", "q3"], ["q4", "q5"]]
        assert [len(batch) for batch in widths.batches[2:]] == [1] * 6

    run(test)


def test_what_gathers_behind_a_batch_goes_together() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("first")) as (batcher, first):
            rest = [asyncio.create_task(batcher.submit(query(f"q{i}"))) for i in range(3)]
            await until(lambda: batcher.waiting == 3)
            widths.gate.set()
            await asyncio.gather(first, *rest)
        assert widths.batches == [["first"], ["q0", "q1", "q2"]]

    run(test)


def test_a_poisoned_query_fails_alone() -> None:
    async def test() -> None:
        widths = Widths()
        async with running(widths) as batcher:
            questions = ["?", "poison", "?", "poison"]
            tasks = [batcher.submit(query(f"q{i}", i + 1, text)) for i, text in enumerate(questions)]
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert (await batcher.submit(query("next", 9))).candidates[0].row == 9
            assert batcher.problem() is None
        assert widths.batches[0] == ["q0", "q1", "q2", "q3"]
        assert [r.candidates[0].row for r in results if isinstance(r, RetrievalResult)] == [1, 3]
        assert [str(r) for r in results if isinstance(r, ValueError)] == ["bad q1", "bad q3"]

    run(test)


def test_a_missing_result_is_an_error() -> None:
    async def test() -> None:
        async with running(lambda queries: []) as batcher:
            with pytest.raises(RuntimeError, match="the retriever returned 0 results for 1 query"):
                await batcher.submit(query("q"))

    run(test)


def test_a_query_whose_time_is_over_costs_nothing() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("first")) as (batcher, first):
            soon = time.monotonic() + 0.01
            late = asyncio.create_task(batcher.submit(query("late"), soon))
            patient = asyncio.create_task(batcher.submit(query("patient"), soon + 60))
            await until(lambda: batcher.waiting == 2 and time.monotonic() > soon)
            widths.gate.set()
            results = await asyncio.gather(first, late, patient, return_exceptions=True)
        assert [(r.status, r.code) for r in results if isinstance(r, ApiError)] == [(504, "timeout")]
        assert widths.batches == [["first"], ["patient"]]

    run(test)


def test_the_worker_takes_its_next_batch_without_the_event_loop() -> None:
    async def test() -> None:
        widths = Widths()
        async with running(widths, max_batch=1) as batcher:
            tasks = [asyncio.ensure_future(batcher.submit(query(f"q{i}"))) for i in range(3)]
            await asyncio.sleep(0)  # all are queued
            deadline = time.monotonic() + 20
            while len(widths.batches) < 3 and time.monotonic() < deadline:
                time.sleep(0.005)  # blocks the event loop
            assert widths.batches == [["q0"], ["q1"], ["q2"]]
            await asyncio.gather(*tasks)

    run(test)


def test_a_caller_who_leaves_is_dropped() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("running")) as (batcher, running_one):
            stays = asyncio.create_task(batcher.submit(query("stays")))
            leaves = asyncio.create_task(batcher.submit(query("leaves")))
            await until(lambda: batcher.waiting == 2)
            leaves.cancel()
            running_one.cancel()
            await until(lambda: batcher.waiting == 1)
            widths.gate.set()
            assert (await stays).query_id == "stays"
        assert widths.batches == [["running"], ["stays"]]

    run(test)


def test_a_dead_worker_leaves_nobody_waiting() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("q", question="fatal")) as (batcher, fatal):
            behind = [asyncio.create_task(batcher.submit(query(f"q{i}"))) for i in range(3)]
            await until(lambda: batcher.waiting == 3)
            widths.gate.set()
            results = await asyncio.gather(fatal, *behind, return_exceptions=True)
            assert [(r.status, r.code) for r in results if isinstance(r, ApiError)] == [(503, "not_ready")] * 4
            assert batcher.problem() == "the batch worker has died; restart the service"
            with pytest.raises(ApiError) as caught:
                await batcher.submit(query("late"))
            assert caught.value.status == 503

    run(test)


def test_a_stuck_worker_is_a_problem() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("q"), timeout_s=0.1) as (batcher, task):
            assert batcher.problem() is None
            await until(lambda: batcher.problem() is not None)
            assert str(batcher.problem()).startswith("the batch worker has been stuck")
            widths.gate.set()
            await task
            assert batcher.problem() is None

    run(test)


def test_stopping_finishes_what_waits() -> None:
    async def test() -> None:
        widths = Widths()
        async with held(widths, query("q0"), max_batch=2) as (batcher, first):
            tasks = [first]
            tasks += [asyncio.create_task(batcher.submit(query(f"q{i}"))) for i in range(1, 6)]
            await until(lambda: batcher.waiting == 5)
            stop = asyncio.create_task(batcher.stop())
            await until(lambda: batcher.problem() == "the service is shutting down")
            with pytest.raises(ApiError) as caught:
                await batcher.submit(query("late"))
            assert caught.value.status == 503
            widths.gate.set()
            await stop
            assert [result.query_id for result in await asyncio.gather(*tasks)] == [f"q{i}" for i in range(6)]

    run(test)


def test_not_started() -> None:
    async def test() -> None:
        batcher = batcher_of(Widths(), ServingSettings())
        assert batcher.problem() == "the batch worker has not started"
        await batcher.stop()

    run(test)
