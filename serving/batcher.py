"""Dynamic batching: worker threads retrieve, and read answers, for several concurrent requests at once."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from retriever.types import EngineError, Generation, GenerationRequest, Query, RetrievalResult
from retriever.wording import counted
from serving.admission import Admission
from serving.errors import ApiError, out_of_time
from serving.lanes import Lane
from serving.metrics import Metrics
from serving.settings import ServingSettings

logger = logging.getLogger(__name__)

Retrieve = Callable[..., list[RetrievalResult]]
"""`retrieve` of a `QueryRetriever`, or that of a `PipelinedRetriever`."""
Read = Callable[[Sequence[GenerationRequest]], list[Generation]]
"""`read_all` of a `BatchedGenerator`."""
_Asked = Query | GenerationRequest
_Reply = RetrievalResult | Generation
_Call = Callable[..., Sequence[_Reply]]


@dataclass(slots=True, eq=False)
class _QueueEntry:
    asked: _Asked
    future: asyncio.Future[_Reply]
    deadline: float
    queued: float


_Queue = deque[_QueueEntry]


@dataclass(slots=True, eq=False)
class _Batch:
    entries: list[_QueueEntry]
    started: float
    call: _Call
    reading: bool


class Batcher:
    """Queues in front of `retrieve`, which runs in a worker thread, or in several if it can work on several batches.

    As soon as `retrieve` can begin another batch, a worker takes all queries that have gathered: a lone query does not
    wait, batches grow with the load, and a busy event loop does not delay them. If a batch fails, its queries are
    retried one by one, so that only the bad one gets the error. If a worker dies, its queries and all waiting ones
    fail, `problem` reports it, and new queries are rejected. Readings of answers have a queue and batches of their own.
    Lanes take them first: they are what a request waits for last.

    Args:
        retrieve: Returns one result for each query, in order.
        settings: Uses `max_batch` and `timeout_s`.
        admission: Notified when a batch starts and ends.
        metrics: Records the size and duration of batches.
        in_flight: How many batches `retrieve` can work on at once. If that is more than one, it takes `free`, which it
            calls when another batch may begin, see `PipelinedRetriever`.
        lanes: Retrieve and read instead of `retrieve` and `read`, side by side. What waits is divided among those that
            are idle; a single query goes to the lane that worked last, whose caches are warm.
        read: Returns one answer for each request, in order; runs in a thread of its own.
    """

    def __init__(
        self,
        retrieve: Retrieve,
        settings: ServingSettings,
        admission: Admission,
        metrics: Metrics,
        in_flight: int = 1,
        lanes: Sequence[Lane] = (),
        read: Read | None = None,
    ) -> None:
        self._retrieve, self._lanes, self._read = retrieve, lanes, read
        self._settings = settings
        self._admission = admission
        self._metrics = metrics
        self._in_flight = in_flight
        self._changed = threading.Condition()  # guards the attributes below, up to `_died`
        self._pending, self._readings = _Queue(), _Queue()
        self._running: list[_Batch] = []  # the oldest first
        self._entering: _Batch | None = None  # the one after which no other batch may begin yet
        self._idle: list[object] = []  # workers that wait for a batch; the last is the one that worked last
        self._ended = 0.0  # when the last batch ended
        self._closing = self._died = False
        self._working = 0  # number of workers; only the event loop changes it
        self._finished = asyncio.Event()

    async def start(self) -> None:
        """Starts the workers."""
        workers: list[tuple[Lane | None, Sequence[tuple[_Queue, _Call]]]]  # what each takes first comes first
        workers = [(lane, ((self._readings, lane.read), (self._pending, lane.retrieve))) for lane in self._lanes]
        if not self._lanes:
            workers = [(None, [(self._pending, self._retrieve)])] * self._in_flight
            workers += [] if self._read is None else [(None, [(self._readings, self._read)])]
        for lane, calls in workers:
            about = asyncio.get_running_loop(), lane, calls
            threading.Thread(target=self._work, args=about, name="models", daemon=True).start()
            self._working += 1

    async def stop(self) -> None:
        """Rejects new queries, finishes the waiting ones and ends the workers; gives up after `timeout_s`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._working:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), self._settings.timeout_s)
        running = [entry for batch in self._running for entry in batch.entries]
        self._fail([*running, *self._pending, *self._readings], "the service has shut down")
        for lane in self._lanes:
            await asyncio.to_thread(lane.close)

    @property
    def waiting(self) -> int:
        """Number of queries that are waiting for a batch."""
        return len(self._pending)

    def problem(self) -> str | None:
        """Returns why no query can be answered, or `None` if the workers are healthy."""
        if self._closing:
            return "the service is shutting down"
        if self._died:
            return "the batch worker has died; restart the service"
        if not self._working:
            return "the batch worker has not started"
        with self._changed:
            busy = time.monotonic() - self._running[0].started if self._running else 0.0
        if busy > self._settings.timeout_s:
            return f"the batch worker has been stuck for {busy:.0f} s"
        return None

    def check(self) -> None:
        """Checks that queries can be answered.

        Raises:
            ApiError: 503 if the worker is not healthy.
        """
        if problem := self.problem():
            raise ApiError(503, "not_ready", problem)

    async def submit(self, query: Query, deadline: float = math.inf) -> RetrievalResult:
        """Returns the result for `query`; if the caller is canceled, the query leaves the queue at once.

        Args:
            query: The query.
            deadline: A `time.monotonic` time; a batch that starts later does not take the query.

        Raises:
            ApiError: 503 if the worker is not healthy or dies meanwhile, 504 if the deadline passes in the queue.
            Exception: What `retrieve` raised for this query.
        """
        result = await self._queued(self._pending, query, deadline)
        assert isinstance(result, RetrievalResult)
        return result

    async def read(self, request: GenerationRequest) -> Generation:
        """Returns the answer to `request`; if the caller is canceled, it leaves the queue at once.

        Raises:
            ApiError: 503 if the worker is not healthy or dies meanwhile.
            Exception: What `read` raised for this request.
        """
        answer = await self._queued(self._readings, request, math.inf)
        assert isinstance(answer, Generation)
        return answer

    async def _queued(self, queue: _Queue, asked: _Asked, deadline: float) -> _Reply:
        self.check()
        entry = _QueueEntry(asked, asyncio.get_running_loop().create_future(), deadline, time.monotonic())
        with self._changed:
            queue.append(entry)
            self._changed.notify_all()  # those that are idle decide whose turn it is
        try:
            return await entry.future
        except asyncio.CancelledError:
            with self._changed:
                if entry in queue:
                    queue.remove(entry)
            raise

    def _work(self, loop: asyncio.AbstractEventLoop, lane: Lane | None, calls: Sequence[tuple[_Queue, _Call]]) -> None:
        """Works on batch after batch until the service closes; runs in a worker's thread."""
        batch, failure = None, None
        try:
            while batch := self._take(loop, calls):
                if not batch.reading:
                    loop.call_soon_threadsafe(self._admission.batch_started, _images(batch.entries))
                options = {"free": partial(self._free, batch)} if self._in_flight > 1 and not batch.reading else {}
                outcomes = self._outcomes(partial(batch.call, **options), [entry.asked for entry in batch.entries])
                loop.call_soon_threadsafe(self._deliver, batch, outcomes, *self._end(batch))
                if lane is not None:
                    lane.revive()
        except BaseException as error:  # even SystemExit and the like: the callers must be notified
            failure = error
            with self._changed:
                self._died = True
                self._changed.notify_all()
        with suppress(RuntimeError):  # the event loop is closed, so nobody is waiting any more
            loop.call_soon_threadsafe(self._leave, batch, failure)

    def _take(self, loop: asyncio.AbstractEventLoop, calls: Sequence[tuple[_Queue, _Call]]) -> _Batch | None:
        """Waits for the next batch and returns it; `None` if the service is closing and nothing waits."""
        with self._changed:
            self._idle.append(worker := object())
            try:
                while not self._died:
                    before = len(self._idle) - 1 - self._idle.index(worker)  # those that worked later
                    waiting = sum(len(queue) for queue, _ in calls)
                    for queue, call in calls if not self._lanes or before < waiting else ():
                        reading = queue is self._readings
                        if entries := self._next(loop, queue, free=reading or self._entering is None):
                            batch = _Batch(entries, time.monotonic(), call, reading)
                            self._entering = self._entering if self._lanes or reading else batch
                            self._running.append(batch)
                            if self._closing:  # others may have nothing left to wait for
                                self._changed.notify_all()
                            return batch
                    if self._closing and not any(queue for queue, _ in calls):
                        return None
                    self._changed.wait()
                return None
            finally:
                self._idle.remove(worker)

    def _next(self, loop: asyncio.AbstractEventLoop, queue: _Queue, free: bool) -> list[_QueueEntry]:
        """Returns the entries of the next batch, which leave the queue; none if it may not begin yet."""
        entries, now, most = list[_QueueEntry](), time.monotonic(), self._settings.max_batch
        if self._lanes:
            most = min(most, -(-_images(queue) // len(self._idle)))
        while free and queue and (not entries or _images((*entries, queue[0])) <= most):
            entry = queue.popleft()  # one with more images than a batch has its own
            if entry.deadline > now:
                entries.append(entry)
            else:
                loop.call_soon_threadsafe(_resolve, entry, out_of_time(self._settings.timeout_s))
        return entries

    def _free(self, batch: _Batch) -> None:
        """Lets the next batch begin; does nothing if it already may."""
        with self._changed:
            if self._entering is batch:
                self._entering = None
                self._changed.notify_all()

    def _end(self, batch: _Batch) -> tuple[float, float]:
        """Ends a batch; returns the seconds it took, and those since the batch before it ended, if that is less."""
        self._free(batch)
        with self._changed:
            before, self._ended = self._ended, time.monotonic()
            self._running.remove(batch)
            return self._ended - batch.started, self._ended - max(batch.started, before)

    def _outcomes(self, call: _Call, asked: Sequence[_Asked]) -> list[_Reply | Exception]:
        """Returns a result or an error for each of a batch; runs in a worker's thread."""
        try:
            results = call(asked)
            if len(results) != len(asked):
                raise RuntimeError(f"{counted(len(results), 'result')} came back for {counted(len(asked), 'query')}")
            return [*results]
        except Exception as error:
            if isinstance(error, EngineError | ApiError):  # it would fail for each alone, after a time-out of its own
                return [error] * len(asked)
            if len(asked) == 1:
                return [error]
            logger.warning("a batch of %d queries failed (%r); retrying them one by one", len(asked), error)
        return [outcome for one in asked for outcome in self._outcomes(call, [one])]

    def _deliver(self, batch: _Batch, outcomes: Sequence[_Reply | Exception], seconds: float, alone: float) -> None:
        if not batch.reading:
            self._admission.batch_ended(alone)
            timings = (outcome.timings_ms for outcome in outcomes if isinstance(outcome, RetrievalResult))
            self._metrics.batch([batch.started - entry.queued for entry in batch.entries], seconds, next(timings, {}))
        for entry, outcome in zip(batch.entries, outcomes, strict=True):
            _resolve(entry, outcome)

    def _leave(self, batch: _Batch | None, failure: BaseException | None) -> None:
        """Notes that a worker has ended; if it has died, its queries and all waiting ones fail."""
        self._working -= 1
        if not self._working:
            self._finished.set()
        if failure is not None:
            logger.error("the batch worker died", exc_info=failure)
        waiting = *self._pending, *self._readings
        self._fail([*(batch.entries if batch else ()), *waiting], "the batch worker died before answering")

    def _fail(self, entries: Sequence[_QueueEntry], message: str) -> None:
        for entry in entries:
            _resolve(entry, ApiError(503, "not_ready", message))


def _images(entries: Iterable[_QueueEntry]) -> int:
    """Returns how many images are searched for; a question without one counts as much."""
    return sum(1 + len(entry.asked.more) for entry in entries)


def _resolve(entry: _QueueEntry, outcome: _Reply | Exception) -> None:
    if entry.future.done():  # its caller is gone
        return
    if isinstance(outcome, Exception):
        entry.future.set_exception(outcome)
    else:
        entry.future.set_result(outcome)
