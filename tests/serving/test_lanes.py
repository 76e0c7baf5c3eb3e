"""Batches of a retriever in several lanes: whose turn it is, and what happens if a lane breaks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from PIL import Image

from retriever.image_cache import ImageCache
from retriever.types import Generation, GenerationRequest, Query, RetrievalResult
from serving.admission import Admission
from serving.batcher import Batcher
from serving.errors import ApiError
from serving.metrics import Metrics
from serving.settings import ServingSettings
from tests.serving.test_batcher import until


class OneLane:
    """A lane that notes its batches; "break" breaks it until it is revived, and `gate` holds it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.broken = self.closed = False

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        self.batches.append([query.id for query in queries])
        assert self.gate.wait(10) and not self.broken
        if any(query.question == "break" for query in queries):
            self.broken = True
            raise ApiError(503, "not_ready", "the lane has broken", headers={"Retry-After": "5"})
        return [RetrievalResult(query.id, [], {}) for query in queries]

    def read(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.batches.append([request.question for request in requests])
        assert self.gate.wait(10)
        if len(requests) > 1 and any(request.question == "bad" for request in requests):
            raise ValueError("one of them is bad")
        return [Generation(request.question) for request in requests]

    def revive(self) -> None:
        self.broken = False

    def close(self) -> None:
        self.closed = True


def batcher_of(lanes: Sequence[OneLane], max_batch: int = 8) -> Batcher:
    settings = ServingSettings(timeout_s=5, max_batch=max_batch)
    admission = Admission(settings, in_flight=len(lanes))
    return Batcher(lanes[0].retrieve, settings, admission, Metrics(admission, ImageCache(0)), lanes=lanes)


def query(name: str, question: str = "") -> Query:
    return Query(Image.new("RGB", (1, 1)), question, name)


def run(
    lanes: Sequence[OneLane], *rounds: Sequence[Query], max_batch: int = 8
) -> list[RetrievalResult | BaseException]:
    """Submits the queries of each round at once, the rounds one after the other; returns all outcomes."""

    async def test() -> list[RetrievalResult | BaseException]:
        batcher = batcher_of(lanes, max_batch)
        await batcher.start()
        await until(lambda: len(batcher._idle) == len(lanes))
        outcomes = list[RetrievalResult | BaseException]()
        for queries in rounds:
            outcomes += await asyncio.gather(*map(batcher.submit, queries), return_exceptions=True)
            await until(lambda: len(batcher._idle) == len(lanes))
        await batcher.stop()
        return outcomes

    return asyncio.run(asyncio.wait_for(test(), 20))


async def blocked(batcher: Batcher, lanes: Sequence[OneLane], count: int) -> list[asyncio.Task[RetrievalResult]]:
    """Submits queries; returns their tasks once each lane has a batch, which it keeps until its gate is open."""
    await batcher.start()
    for lane in lanes:
        lane.gate.clear()
    tasks = [asyncio.create_task(batcher.submit(query(str(number)))) for number in range(count)]
    await until(lambda: all(lane.batches for lane in lanes))
    return tasks


def test_single_queries_go_to_the_lane_that_worked_last() -> None:
    lanes = [OneLane(), OneLane(), OneLane()]
    run(lanes, *([query(str(number))] for number in range(6)))
    assert sorted(len(lane.batches) for lane in lanes) == [0, 0, 6]
    assert all(lane.closed for lane in lanes)


def test_no_lane_is_idle_while_queries_wait() -> None:
    lanes = [OneLane(), OneLane()]

    async def test() -> None:
        batcher = batcher_of(lanes)
        tasks = await blocked(batcher, lanes, 6)
        for lane in lanes:
            lane.gate.set()
        assert len(await asyncio.gather(*tasks)) == 6
        await batcher.stop()

    asyncio.run(asyncio.wait_for(test(), 20))


def test_answers_are_read_before_others_are_searched_for_and_divided_among_lanes() -> None:
    lanes = [OneLane(), OneLane()]

    async def test() -> list[Generation]:
        batcher = batcher_of(lanes)
        tasks = await blocked(batcher, lanes, 2)
        waiting = asyncio.create_task(batcher.submit(query("last")))
        names = ["a", "bad", "c", "d"]
        reads = [asyncio.create_task(batcher.read(GenerationRequest(name, None, None))) for name in names]
        await until(lambda: len(batcher._readings) == 4)
        for lane in lanes:
            lane.gate.set()
        await asyncio.gather(*tasks, waiting)
        answers = await asyncio.gather(*reads)
        await batcher.stop()
        return answers

    answers = asyncio.run(asyncio.wait_for(test(), 20))
    assert [answer.answer for answer in answers] == ["a", "bad", "c", "d"]  # the bad one hurts none of its batch
    ends = [lane.batches[-1] for lane in lanes]
    assert ["last"] in ends and all(lane.batches[1] != ["last"] for lane in lanes if len(lane.batches) > 2)


def test_a_canceled_reading_leaves_the_queue_and_takes_no_answer_of_another() -> None:
    lanes = [OneLane()]

    async def test() -> Generation:
        batcher = batcher_of(lanes)
        tasks = await blocked(batcher, lanes, 1)
        canceled, kept = (asyncio.create_task(batcher.read(GenerationRequest(name, None, None))) for name in "ab")
        await until(lambda: len(batcher._readings) == 2)
        canceled.cancel()
        await until(lambda: len(batcher._readings) == 1)
        lanes[0].gate.set()
        await asyncio.gather(*tasks)
        answer = await kept
        await batcher.stop()
        return answer

    assert asyncio.run(asyncio.wait_for(test(), 20)).answer == "b"
    assert lanes[0].batches == [["0"], ["b"]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_query_is_answered_once(count: int) -> None:
    lanes = [OneLane() for _ in range(count)]
    outcomes = run(
        lanes, *([query(f"{size} {number}") for number in range(size)] for size in (1, 5, 17, 2)), max_batch=4
    )
    assert all(isinstance(outcome, RetrievalResult) for outcome in outcomes)
    batches = [batch for lane in lanes for batch in lane.batches]
    assert sorted(name for batch in batches for name in batch) == sorted(
        f"{size} {number}" for size in (1, 5, 17, 2) for number in range(size)
    )
    assert max(map(len, batches)) <= 4


def test_a_lane_that_breaks_fails_its_batch_only_and_is_revived() -> None:
    lanes = [OneLane(), OneLane()]
    outcomes = run(lanes, [query("a", "break")], [query("b"), query("c")], [query("d")])
    assert isinstance(outcomes[0], ApiError) and outcomes[0].headers == {"Retry-After": "5"}
    assert all(isinstance(outcome, RetrievalResult) for outcome in outcomes[1:])
    assert [batch for lane in lanes for batch in lane.batches].count(["a"]) == 1  # not tried once more
    assert not any(lane.broken for lane in lanes)


def test_queries_that_wait_at_the_end_are_answered() -> None:
    lanes = [OneLane(), OneLane()]

    async def test() -> None:
        batcher = batcher_of(lanes)
        tasks = await blocked(batcher, lanes, 2)
        tasks += [asyncio.create_task(batcher.submit(query(str(number)))) for number in range(2, 5)]
        await until(lambda: batcher.waiting == 3)
        stopping = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0.05)
        for lane in lanes:
            lane.gate.set()
        assert len(await asyncio.gather(*tasks)) == 5
        await stopping

    asyncio.run(asyncio.wait_for(test(), 4))  # less than `timeout_s`: no worker waits in vain
