"""Admission of requests, with a clock that stands still unless it is set: every estimate can be worked out by hand."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from serving.admission import Admission, Ticket
from serving.errors import ApiError
from serving.settings import ServingSettings


class Door:
    """An admission with its own clock."""

    def __init__(self, in_flight: int = 1, answers: int = 1, **settings: Any) -> None:
        self.now = 100.0
        chosen = {"max_batch": 2, "max_wait_s": 1.0, "timeout_s": 30.0, "decode_threads": 2, **settings}
        self.admission = Admission(ServingSettings(**chosen), lambda: self.now, in_flight, answers)

    def run_batch(self, size: int, seconds: float) -> None:
        self.admission.batch_started(size)
        self.now += seconds
        self.admission.batch_ended(seconds)

    def enter(self, count: int) -> list[Ticket]:
        """Admits requests whose uploads are immediately complete."""
        tickets = [self.admission.enter() for _ in range(count)]
        for ticket in tickets:
            self.admission.uploaded(ticket)
        return tickets

    def refusal(self) -> tuple[int, str, str]:
        error = self.admission.refusal()
        assert error is not None
        return error.status, error.code, error.headers["Retry-After"]


def test_the_estimate_is_the_mean_of_seconds_per_query() -> None:
    door = Door(max_batch=8)
    assert door.admission.seconds_per_query() == 0
    door.run_batch(1, 0.5)
    assert door.admission.seconds_per_query() == 0.5
    door.run_batch(8, 0.8)
    door.run_batch(4, 0.8)
    assert door.admission.seconds_per_query() == pytest.approx(2.1 / 13)  # few expensive ones count as what they cost
    for _ in range(5):
        door.run_batch(8, 0.8)
    door.run_batch(4, 400)  # an interrupted batch counts no more than the slowest does
    assert door.admission.seconds_per_query() == pytest.approx(6.1 / 53)
    for _ in range(32):
        door.run_batch(8, 0.8)
    assert door.admission.seconds_per_query() == pytest.approx(0.1)  # older batches are forgotten


def test_each_further_image_of_a_request_holds_a_place() -> None:
    door = Door(max_wait_s=10.0)
    door.run_batch(2, 1.0)
    door.enter(1)
    with door.admission.inner(3):
        assert door.admission.inside == 4 and door.admission.wait() == pytest.approx(2.0)
        with door.admission.inner(0):
            assert door.admission.inside == 4
    assert door.admission.inside == 1


def test_the_wait_counts_all_that_is_ahead() -> None:
    door = Door(max_wait_s=10.0)
    door.run_batch(2, 1.0)  # 0.5 s per query
    running = door.enter(2)
    door.admission.batch_started(2)
    door.enter(3)
    door.admission.enter()  # still uploading
    assert door.admission.inside == 6
    assert door.admission.wait() == pytest.approx(3.0)
    door.now += 0.75
    assert door.admission.wait() == pytest.approx(2.25)
    door.admission.batch_ended(1.0)
    for ticket in running:
        door.admission.leave(ticket)
    assert door.admission.wait() == pytest.approx(2.0)


def test_who_would_wait_too_long_is_told_when_to_come_back() -> None:
    door = Door(max_wait_s=1.0)
    door.run_batch(2, 1.0)  # 0.5 s per query
    door.enter(2)
    assert door.admission.refusal() is None  # would wait for 1 s
    door.enter(2)  # two full batches are admitted whatever the estimate
    door.now += 1.0  # the burst is over
    assert door.refusal() == (429, "queue_full", "1")  # would wait for 2 s
    with pytest.raises(ApiError):
        door.admission.enter()
    assert door.admission.inside == 4


def test_a_burst_may_wait_longer() -> None:
    door = Door(max_batch=4, max_wait_s=1.0)
    door.run_batch(4, 1.0)  # 0.25 s per query
    tickets = door.enter(8)
    assert door.admission.refusal() is None  # would wait for 2 s
    tickets += door.enter(1)
    assert door.refusal() == (429, "queue_full", "2")  # would wait for 2.25 s; in 1.25 s, it would be 1 s
    door.admission.leave(tickets[0])
    assert door.admission.refusal() is None
    door.now += 1.0  # the burst is over
    assert door.refusal() == (429, "queue_full", "1")


def test_a_burst_begins_when_there_is_little_to_do() -> None:
    door = Door(max_batch=4, max_wait_s=1.0)
    door.run_batch(4, 1.0)
    tickets = door.enter(8)
    door.now += 1.0
    for ticket in tickets[2:]:
        door.admission.leave(ticket)
    tickets[2:] = door.enter(6)
    assert door.refusal()[0] == 429  # half a batch was left
    door.now += 2.0
    for ticket in tickets[1:]:
        door.admission.leave(ticket)
    door.enter(7)
    assert door.admission.refusal() is None  # less was left


def test_a_burst_does_not_begin_soon_after_a_refusal() -> None:
    door = Door(max_batch=4, max_wait_s=1.0)
    door.run_batch(4, 1.0)
    for seconds, count in ((1.9, 8), (2.0, 9)):
        tickets = door.enter(8)
        door.now += 1.0
        assert door.refusal()[0] == 429
        for ticket in tickets:
            door.admission.leave(ticket)
        door.now += seconds
        tickets = door.enter(count)
        assert door.refusal()[0] == 429
        for ticket in tickets:
            door.admission.leave(ticket)
        door.now += 10.0


def test_retry_after_comes_from_the_measured_rate() -> None:
    door = Door(max_wait_s=1.0)
    door.run_batch(2, 10.0)  # 5 s per query
    door.enter(4)
    assert door.refusal() == (429, "queue_full", "19")  # 20 s of work, minus the permitted wait of 1 s


def test_two_full_batches_are_always_let_in() -> None:
    door = Door(max_wait_s=0.0, max_batch=16)
    door.run_batch(16, 100.0)
    door.enter(32)
    assert door.refusal()[0] == 429


def test_with_two_batches_in_flight_three_full_ones_are_let_in() -> None:
    door = Door(in_flight=2, max_wait_s=0.0, max_batch=16)
    door.run_batch(16, 100.0)
    door.enter(48)
    assert door.refusal()[0] == 429


def test_the_wait_counts_two_batches_in_flight() -> None:
    door = Door(in_flight=2, max_batch=4, max_queue=4)
    door.run_batch(4, 2.0)  # 0.5 s per query
    tickets = door.enter(4)
    door.admission.batch_started(4)
    door.enter(4)
    door.now += 1.0
    assert door.admission.wait() == pytest.approx(3.0)  # 4 s of work, the first second of which is done
    door.admission.batch_started(4)
    door.now += 0.5
    assert door.admission.wait() == pytest.approx(2.5)
    door.admission.batch_ended(1.5)
    for ticket in tickets:
        door.admission.leave(ticket)
    assert door.admission.seconds_per_query() == pytest.approx(0.4375)  # 3.5 s for eight
    assert door.admission.wait() == pytest.approx(4 * 0.4375)
    door.enter(3)
    assert door.admission.refusal() is None  # what runs does not fill the queue
    door.now += 1.0
    door.admission.batch_ended(1.0)  # after the one before it
    assert door.admission.seconds_per_query() == pytest.approx(0.375)  # of 0.5, 0.375 and 0.25
    door.now += 60.0
    assert door.admission.wait() == pytest.approx(7 * 0.375)  # time without a batch is no progress


def test_a_batch_that_takes_unusually_long_counts_before_it_ends() -> None:
    door = Door(max_wait_s=1.0)
    door.run_batch(2, 0.02)
    door.enter(4)
    door.admission.batch_started(2)
    assert door.admission.refusal() is None
    door.now += 60.0
    assert door.refusal()[0] == 429


def test_decoding_may_be_what_takes_longest() -> None:
    door = Door()
    door.run_batch(2, 0.02)
    door.admission.decoded(1.0)  # by one of two threads
    assert door.admission.seconds_per_query() == 0.5


def test_memory_bounds_what_waits() -> None:
    door = Door(max_queue=3)
    door.enter(1)
    door.admission.batch_started(1)
    tickets = door.enter(3)
    assert door.refusal()[:2] == (429, "queue_full")
    door.admission.leave(tickets[0])
    door.admission.leave(tickets[0])  # once more changes nothing
    assert door.admission.inside == 3
    assert door.admission.refusal() is None


def test_a_slow_upload_holds_no_place() -> None:
    door = Door(max_wait_s=1.0)
    door.run_batch(2, 1.0)
    slow = [door.admission.enter() for _ in range(4)]
    door.now += 1.0
    assert door.refusal()[0] == 429
    door.now += 0.5
    assert door.admission.inside == 0
    door.admission.uploaded(slow[0])  # finally complete: readmitted, since there is time
    assert door.admission.inside == 1
    door.enter(3)
    door.now += 1.0
    with pytest.raises(ApiError) as caught:
        door.admission.uploaded(slow[1])
    assert caught.value.status == 429
    assert door.admission.inside == 4


def test_of_too_many_slow_uploads_the_oldest_end() -> None:
    async def test() -> None:
        door = Door(max_queue=2)
        ended: list[int] = []

        async def upload(number: int) -> None:
            ticket = door.admission.enter()
            try:
                async with asyncio.timeout(60) as ticket.limit:
                    await asyncio.sleep(30)
            except TimeoutError:
                ended.append(number)
            finally:
                door.admission.leave(ticket)

        tasks = []
        for number in range(4):
            tasks.append(asyncio.create_task(upload(number)))
            await asyncio.sleep(0)
            door.now += 1.5
        assert door.admission.inside == 0
        await asyncio.gather(*tasks[:2])
        assert sorted(ended) == [0, 1]
        for task in tasks[2:]:
            task.cancel()

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_slow_generator_turns_away_what_it_cannot_answer_in_time() -> None:
    door = Door(timeout_s=30.0, max_batch=2, answers=2)
    with door.admission.answering(), door.admission.answering():
        door.now += 40.0
    assert door.admission.refusal() is None  # nothing is being answered, and the next answer may be faster
    with door.admission.answering():
        assert door.admission.refusal() is None
        with door.admission.answering():
            assert door.refusal() == (429, "queue_full", "19")  # one of two answers every 20 s; 1 s may be waited


def test_what_waits_for_the_generator_is_bounded_by_what_an_answer_takes() -> None:
    """An answer is an eighth of a second's work of a generator that works on four at a time."""
    door = Door(max_wait_s=0.2, max_batch=8, answers=4)
    door.run_batch(8, 0.04)
    with ExitStack() as writing:
        for _ in range(4):
            writing.enter_context(door.admission.answering())
        door.now += 0.5
    assert door.admission.wait_for_generator() == 0.0
    with ExitStack() as writing:
        for _ in range(4):
            writing.enter_context(door.admission.answering())
        door.enter(3)  # whose retrieval ends before
        assert door.admission.wait_for_generator() == pytest.approx(0.5)
        assert door.admission.refusal() is None
        door.enter(1)
        assert door.refusal() == (429, "queue_full", "1")


def test_answers_that_end_together_share_their_time() -> None:
    door = Door(answers=8)
    with ExitStack() as writing:
        for _ in range(24):  # three batches of a reader of eight, of 0.4 s each
            writing.enter_context(door.admission.answering())
        door.now += 1.2
    with ExitStack() as writing:
        for _ in range(8):
            writing.enter_context(door.admission.answering())
        assert door.admission.wait_for_generator() == pytest.approx(0.05)


def test_a_client_that_reads_slowly_does_not_make_the_generator_slow() -> None:
    door = Door(timeout_s=30.0, max_batch=1)
    with door.admission.answering() as pause:
        door.now += 1.0
        with pause():
            door.now += 1000.0
            assert door.admission.refusal() is None
        door.now += 1.0
    with door.admission.answering():
        assert door.admission.refusal() is None  # such an answer takes 2 s


def test_before_the_first_batch_has_ended_two_batches_are_let_in() -> None:
    door = Door()
    door.enter(4)
    assert door.refusal() == (429, "queue_full", "1")
    door.admission.decoded(0.001)  # measures images, not batches
    assert door.refusal() == (429, "queue_full", "1")
    door.run_batch(2, 0.1)
    assert door.admission.refusal() is None  # 4 * 0.05 s is less than 1 s
