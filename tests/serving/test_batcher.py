"""Batches of concurrent queries: grouping, isolated failures, and dead or stuck workers."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PIL import Image

from retriever.image_cache import ImageCache
from retriever.pipeline import Retriever
from retriever.protocols import Finish
from retriever.streams import Turns
from retriever.types import Candidate, EngineError, Query, RetrievalResult
from serving.admission import Admission
from serving.batcher import Batcher, Retrieve
from serving.errors import ApiError, as_api_error
from serving.metrics import Metrics
from serving.service import Service
from serving.settings import ServingSettings
from serving.tracing import Traces
from tests.fakes.world import FakeGenerator, FakeIndex


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


class TwoSteps:
    """A retriever that works on two batches at once: one in step 1 and one in step 2.

    A batch waits in a step until that is opened: "1ab" for the batch of a and b in step 1, "1*" for all in step 1.
    "poison 1" raises in step 1, "fatal 1" ends the worker there.
    """

    def __init__(self, *opened: str) -> None:
        self._turns = Turns(2)
        self._changed = threading.Condition()
        self._opened = set(opened)
        self.log: list[str] = []

    def open(self, *names: str) -> None:
        with self._changed:
            self._opened.update(names)
            self._changed.notify_all()

    def __call__(self, queries: Sequence[Query], free: Callable[[], object]) -> list[RetrievalResult]:
        names = "".join(query.id for query in queries)
        with self._turns.batch() as move_on:
            self._step(1, names, queries)
            move_on()
            free()
            self._step(2, names, queries)
            return [RetrievalResult(query.id, [Candidate(query.image.width)], {"step": 1.0}) for query in queries]

    def _step(self, number: int, names: str, queries: Sequence[Query]) -> None:
        with self._changed:
            self.log.append(f"{number}{names}")
            assert self._changed.wait_for(lambda: self._opened & {f"{number}{names}", f"{number}*"}, 10)
        for query in queries:
            if query.question == f"poison {number}":
                raise ValueError(f"bad {query.id}")
            if query.question == f"fatal {number}":
                raise SystemExit("gone")


def query(name: str, width: int = 1, question: str = "?") -> Query:
    return Query(Image.new("RGB", (width, 1)), question, name)


def batcher_of(retrieve: Retrieve, settings: ServingSettings) -> Batcher:
    in_flight = 2 if isinstance(retrieve, TwoSteps) else 1
    admission = Admission(settings, in_flight=in_flight)
    return Batcher(retrieve, settings, admission, Metrics(admission, ImageCache(0)), in_flight)


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
        if isinstance(retrieve, TwoSteps):
            retrieve.open("1*", "2*")
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


async def test_batched_is_single() -> None:
    widths = Widths()
    queries = [query(f"q{i}", width=i + 1) for i in range(6)]
    async with held(widths, query("first"), max_batch=4) as (batcher, first):
        tasks = [asyncio.create_task(batcher.submit(q)) for q in queries]
        await until(lambda: batcher.waiting == 6)
        widths.gate.set()
        await first
        together = await asyncio.gather(*tasks)
        alone = [await batcher.submit(q) for q in queries]
    assert together == alone
    assert [result.candidates[0].row for result in together] == [1, 2, 3, 4, 5, 6]
    assert widths.batches[1:3] == [["q0", "q1", "q2", "q3"], ["q4", "q5"]]
    assert [len(batch) for batch in widths.batches[3:]] == [1] * 6


async def test_what_gathers_behind_a_batch_goes_together() -> None:
    widths = Widths()
    async with held(widths, query("first")) as (batcher, first):
        rest = [asyncio.create_task(batcher.submit(query(f"q{i}"))) for i in range(3)]
        await until(lambda: batcher.waiting == 3)
        widths.gate.set()
        await asyncio.gather(first, *rest)
    assert widths.batches == [["first"], ["q0", "q1", "q2"]]


async def test_a_poisoned_query_fails_alone() -> None:
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


async def test_a_database_that_is_away_fails_a_batch_at_once() -> None:
    calls = list[int]()

    def away(queries: Sequence[Query]) -> list[RetrievalResult]:
        calls.append(len(queries))
        raise EngineError("Milvus at http://db:19530: cannot be reached")

    async with running(away) as batcher:
        tasks = [batcher.submit(query(f"q{i}")) for i in range(4)]
        errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(calls) == 4  # none again alone, whether or not the worker was quick enough to take the first one alone
    seen = [as_api_error(error, "r") for error in errors if isinstance(error, Exception)]
    assert [(error.status, error.code, error.headers) for error in seen] == [
        (503, "engine_unavailable", {"Retry-After": "5"})
    ] * 4


async def test_a_missing_result_is_an_error() -> None:
    async with running(lambda queries: []) as batcher:
        with pytest.raises(RuntimeError, match="0 results came back for 1 query"):
            await batcher.submit(query("q"))


async def test_a_query_whose_time_is_over_costs_nothing() -> None:
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


async def test_the_worker_takes_its_next_batch_without_the_event_loop() -> None:
    widths = Widths()
    async with running(widths, max_batch=1) as batcher:
        tasks = [asyncio.ensure_future(batcher.submit(query(f"q{i}"))) for i in range(3)]
        await asyncio.sleep(0)  # all are queued
        deadline = time.monotonic() + 20
        while len(widths.batches) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)  # blocks the event loop
        assert widths.batches == [["q0"], ["q1"], ["q2"]]
        await asyncio.gather(*tasks)


async def test_a_caller_who_leaves_is_dropped() -> None:
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


async def test_a_dead_worker_leaves_nobody_waiting() -> None:
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


async def test_a_stuck_worker_is_a_problem() -> None:
    widths = Widths()
    async with held(widths, query("q"), timeout_s=0.1) as (batcher, task):
        assert batcher.problem() is None
        await until(lambda: batcher.problem() is not None)
        assert str(batcher.problem()).startswith("the batch worker has been stuck")
        widths.gate.set()
        await task
        assert batcher.problem() is None


async def test_stopping_finishes_what_waits() -> None:
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


async def test_not_started() -> None:
    batcher = batcher_of(Widths(), ServingSettings())
    assert batcher.problem() == "the batch worker has not started"
    await batcher.stop()


async def test_the_next_batch_begins_when_the_first_step_is_free() -> None:
    steps = TwoSteps()
    async with running(steps) as batcher:
        tasks = [asyncio.create_task(batcher.submit(query("a")))]
        await until(lambda: steps.log == ["1a"])
        tasks += [asyncio.create_task(batcher.submit(query(name))) for name in "bcd"]
        await until(lambda: batcher.waiting == 3)  # gather in the meantime
        steps.open("1a")
        await until(lambda: steps.log == ["1a", "2a", "1bcd"])
        tasks += [asyncio.create_task(batcher.submit(query(name))) for name in "ef"]
        await until(lambda: batcher.waiting == 2)
        steps.open("1bcd", "2a")
        assert (await tasks[0]).query_id == "a"
        await until(lambda: steps.log[3:] == ["2bcd", "1ef"])
        steps.open("1ef", "2bcd", "2ef")
        assert [result.query_id for result in await asyncio.gather(*tasks)] == list("abcdef")


async def test_a_service_on_a_gpu_has_two_batches_in_flight() -> None:
    meet = threading.Barrier(2, timeout=10).wait

    class Meeting:
        """A step in which the batch of one query meets that of another in another step."""

        def __init__(self, name: str, meets: str) -> None:
            self.name, self.meets = name, meets

        def start(self, queries: Sequence[Query]) -> Finish:
            if queries[0].id == self.meets:
                meet()
            return lambda _: [[Candidate(0)] for _ in queries]

    retriever = Retriever([Meeting("step1", "b"), Meeting("step2", "a")], FakeIndex(), device="cuda")
    service = Service(retriever, FakeGenerator(), ServingSettings(max_batch=1), ImageCache(0), Traces(None))
    await service.batcher.start()
    results = await asyncio.gather(*(service.retrieve_query(query(name)) for name in "ab"))
    assert [result.query_id for result in results] == ["a", "b"]
    await service.batcher.stop()


async def test_a_lone_query_does_not_wait_for_another() -> None:
    async with running(TwoSteps("1*", "2*")) as batcher:
        for name in "abc":
            assert (await batcher.submit(query(name))).query_id == name


async def test_two_batches_at_once_give_each_caller_its_own_result() -> None:
    chance = random.Random(1)
    steps = TwoSteps("1*", "2*")
    async with running(steps, max_batch=3) as batcher:

        async def ask(number: int) -> None:
            await asyncio.sleep(chance.random() / 50)
            question = chance.choice(["?", "?", "?", "poison 1", "poison 2"])
            try:
                result = await batcher.submit(query(f"({number})", number + 1, question))
            except ValueError as error:
                assert (question[:6], str(error)) == ("poison", f"bad ({number})")
            else:
                assert (question, result.query_id, result.candidates[0].row) == ("?", f"({number})", number + 1)

        await asyncio.gather(*map(ask, range(150)))
        assert batcher.problem() is None


@pytest.mark.parametrize("step", [1, 2])
async def test_a_batch_that_fails_beside_another_fails_alone(step: int) -> None:
    steps = TwoSteps("1*")
    async with running(steps) as batcher:
        first = asyncio.create_task(batcher.submit(query("a")))
        await until(lambda: steps.log == ["1a", "2a"])
        names, questions = "bcd", ["?", f"poison {step}", "?"]
        tasks = [
            asyncio.create_task(batcher.submit(query(name, 1, question)))
            for name, question in zip(names, questions, strict=True)
        ]
        await until(lambda: "1b" in "".join(steps.log))
        steps.open("2*")
        assert (await first).query_id == "a"
        b, c, d = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(b, RetrievalResult) and isinstance(d, RetrievalResult)
        assert (b.query_id, str(c), d.query_id) == ("b", "bad c", "d")
        assert batcher.problem() is None


async def test_stopping_finishes_both_batches_and_what_waits() -> None:
    steps = TwoSteps("1a")
    async with running(steps, max_batch=2) as batcher:
        tasks = [asyncio.create_task(batcher.submit(query("a")))]
        await until(lambda: steps.log == ["1a", "2a"])
        tasks += [asyncio.create_task(batcher.submit(query(name))) for name in "bcdef"]
        await until(lambda: len(steps.log) == 3)
        stop = asyncio.create_task(batcher.stop())
        await until(lambda: batcher.problem() == "the service is shutting down")
        steps.open("1*", "2*")
        await stop
        assert [result.query_id for result in await asyncio.gather(*tasks)] == list("abcdef")


async def test_stopping_gives_up_on_stuck_batches() -> None:
    steps = TwoSteps("1a")
    async with running(steps, timeout_s=0.2) as batcher:
        tasks = [asyncio.create_task(batcher.submit(query("a")))]
        await until(lambda: steps.log == ["1a", "2a"])
        tasks += [asyncio.create_task(batcher.submit(query("b")))]
        await until(lambda: steps.log == ["1a", "2a", "1b"])
        tasks += [asyncio.create_task(batcher.submit(query("c")))]
        await until(lambda: batcher.waiting == 1)
        await until(lambda: "stuck" in str(batcher.problem()))
        await batcher.stop()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [(r.status, r.message) for r in results if isinstance(r, ApiError)] == [
            (503, "the service has shut down")
        ] * 3


async def test_a_worker_that_dies_lets_the_other_one_finish() -> None:
    steps = TwoSteps("1a")
    async with running(steps) as batcher:
        alive = asyncio.create_task(batcher.submit(query("a")))
        await until(lambda: steps.log == ["1a", "2a"])
        tasks = [asyncio.create_task(batcher.submit(query("b", question="fatal 1")))]
        await until(lambda: steps.log == ["1a", "2a", "1b"])
        tasks += [asyncio.create_task(batcher.submit(query(name))) for name in "cd"]
        await until(lambda: batcher.waiting == 2)
        steps.open("1b")
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [(r.status, r.code) for r in results if isinstance(r, ApiError)] == [(503, "not_ready")] * 3
        assert batcher.problem() == "the batch worker has died; restart the service"
        with pytest.raises(ApiError):
            await batcher.submit(query("late"))
        steps.open("2a")
        assert (await alive).query_id == "a"
        await until(lambda: batcher._working == 0)
    assert steps.log == ["1a", "2a", "1b"]


async def test_callers_who_leave_two_batches_are_dropped() -> None:
    steps = TwoSteps("1a")
    async with running(steps) as batcher:
        first = asyncio.create_task(batcher.submit(query("a")))
        await until(lambda: steps.log == ["1a", "2a"])
        second = asyncio.create_task(batcher.submit(query("b")))
        await until(lambda: steps.log == ["1a", "2a", "1b"])
        leaves, stays = (asyncio.create_task(batcher.submit(query(name))) for name in "cd")
        await until(lambda: batcher.waiting == 2)
        for task in (first, second, leaves):
            task.cancel()
        await until(lambda: batcher.waiting == 1)
        steps.open("1*", "2*")
        assert (await stays).query_id == "d"
    assert steps.log == ["1a", "2a", "1b", "2b", "1d", "2d"]


async def test_images_fill_a_batch() -> None:
    retrieve, one = Widths(), Image.new("RGB", (1, 1))
    async with running(retrieve, max_batch=4) as batcher:
        retrieve.gate.clear()
        tasks = [asyncio.create_task(batcher.submit(query("first")))]
        await asyncio.to_thread(retrieve.began.wait, 10)
        for name, more in (("a", 1), ("b", 1), ("c", 0), ("d", 9), ("e", 0)):
            several = Query(one, "?", name, more=(one,) * more)
            tasks.append(asyncio.create_task(batcher.submit(several)))
            await asyncio.sleep(0)
        retrieve.gate.set()
        await asyncio.gather(*tasks)
    assert retrieve.batches == [["first"], ["a", "b"], ["c"], ["d"], ["e"]]  # ten images are a batch of their own
