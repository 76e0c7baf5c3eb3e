"""Dynamic batching: one worker thread retrieves for several concurrent requests at once."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from retriever.types import Query, RetrievalResult
from retriever.wording import counted
from serving.admission import Admission
from serving.errors import ApiError, out_of_time
from serving.metrics import Metrics
from serving.settings import ServingSettings

logger = logging.getLogger(__name__)

Retrieve = Callable[[Sequence[Query]], list[RetrievalResult]]
Outcome = RetrievalResult | Exception


@dataclass(slots=True, eq=False)
class _QueueEntry:
    query: Query
    future: asyncio.Future[RetrievalResult]
    deadline: float
    queued: float


class Batcher:
    """A queue in front of `retrieve`, which runs in a single worker thread.

    As soon as the thread is free, it takes all queries that have gathered as its next batch: a lone query does not
    wait, batches grow with the load, and a busy event loop does not delay them. If a batch fails, its queries are
    retried one by one, so that only the bad one gets the error. If the thread dies, all waiting queries fail, `problem`
    reports it, and new queries are rejected.

    Args:
        retrieve: Returns one result for each query, in order.
        settings: Uses `max_batch` and `timeout_s`.
        admission: Notified when a batch starts and ends.
        metrics: Records the size and duration of batches.
    """

    def __init__(self, retrieve: Retrieve, settings: ServingSettings, admission: Admission, metrics: Metrics) -> None:
        self._retrieve = retrieve
        self._settings = settings
        self._admission = admission
        self._metrics = metrics
        self._pending: deque[_QueueEntry] = deque()
        self._changed = threading.Condition()  # guards `_pending` and `_closing`
        self._closing = False
        self._running: list[_QueueEntry] = []
        self._running_since = 0.0
        self._thread: threading.Thread | None = None
        self._finished = asyncio.Event()

    async def start(self) -> None:
        """Starts the worker."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, args=(loop,), name="retrieve", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Rejects new queries, finishes the waiting ones and ends the worker; gives up after `timeout_s`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), self._settings.timeout_s)
        self._fail("the service has shut down")

    @property
    def waiting(self) -> int:
        """Number of queries that are waiting for a batch."""
        return len(self._pending)

    def problem(self) -> str | None:
        """Returns why no query can be answered, or `None` if the worker is healthy."""
        if self._closing:
            return "the service is shutting down"
        if self._thread is None:
            return "the batch worker has not started"
        if self._finished.is_set():
            return "the batch worker has died; restart the service"
        busy = time.monotonic() - self._running_since if self._running else 0.0
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
        self.check()
        entry = _QueueEntry(query, asyncio.get_running_loop().create_future(), deadline, time.monotonic())
        with self._changed:
            self._pending.append(entry)
            self._changed.notify()
        try:
            return await entry.future
        except asyncio.CancelledError:
            with self._changed:
                if entry in self._pending:
                    self._pending.remove(entry)
            raise

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Retrieves batch after batch until the service closes; runs in the worker's thread."""
        failure: BaseException | None = None
        try:
            while batch := self._take(loop):
                self._running_since, self._running = time.monotonic(), batch
                loop.call_soon_threadsafe(self._admission.batch_started, len(batch))
                outcomes = self._outcomes([entry.query for entry in batch])
                seconds = time.monotonic() - self._running_since
                waits = [self._running_since - entry.queued for entry in batch]
                self._running = []
                loop.call_soon_threadsafe(self._deliver, batch, outcomes, seconds, waits)
        except BaseException as error:  # even SystemExit and the like: the callers must be notified
            failure = error
        with suppress(RuntimeError):  # the event loop is closed, so nobody is waiting any more
            loop.call_soon_threadsafe(self._ended, failure)

    def _take(self, loop: asyncio.AbstractEventLoop) -> list[_QueueEntry]:
        """Waits for the next batch and returns it; it is empty only if the service is closing and no query waits."""
        with self._changed:
            while True:
                batch: list[_QueueEntry] = []
                now = time.monotonic()
                while self._pending and len(batch) < self._settings.max_batch:
                    entry = self._pending.popleft()
                    if entry.deadline > now:
                        batch.append(entry)
                    else:
                        loop.call_soon_threadsafe(_resolve, entry, out_of_time(self._settings.timeout_s))
                if batch or self._closing:
                    return batch
                self._changed.wait()

    def _outcomes(self, queries: Sequence[Query]) -> list[Outcome]:
        """Returns a result or an error for each query; runs in the worker's thread."""
        try:
            results = list(self._retrieve(queries))
            if len(results) != len(queries):
                asked = counted(len(queries), "query")
                raise RuntimeError(f"the retriever returned {counted(len(results), 'result')} for {asked}")
            return [*results]
        except Exception as error:
            if len(queries) == 1:
                return [error]
            logger.warning("a batch of %d queries failed (%r); retrying them one by one", len(queries), error)
        return [outcome for query in queries for outcome in self._outcomes([query])]

    def _deliver(
        self, batch: Sequence[_QueueEntry], outcomes: Sequence[Outcome], seconds: float, waits: list[float]
    ) -> None:
        self._admission.batch_ended(seconds)
        timings = (outcome.timings_ms for outcome in outcomes if isinstance(outcome, RetrievalResult))
        self._metrics.batch(waits, seconds, next(timings, {}))
        for entry, outcome in zip(batch, outcomes, strict=True):
            _resolve(entry, outcome)

    def _ended(self, failure: BaseException | None) -> None:
        """Fails all queries that are still waiting after the worker has ended."""
        self._finished.set()
        if failure is not None:
            logger.error("the batch worker died", exc_info=failure)
        self._fail("the batch worker died before answering")

    def _fail(self, message: str) -> None:
        with self._changed:
            held = [*self._running, *self._pending]
        for entry in held:
            _resolve(entry, ApiError(503, "not_ready", message))
        self._running = []


def _resolve(entry: _QueueEntry, outcome: Outcome) -> None:
    if entry.future.done():  # its caller is gone
        return
    if isinstance(outcome, Exception):
        entry.future.set_exception(outcome)
    else:
        entry.future.set_result(outcome)
