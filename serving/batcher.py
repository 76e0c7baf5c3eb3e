"""Dynamic batching: concurrent requests share one worker thread, which retrieves for several of them at once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from retriever.types import Query, RetrievalResult
from serving.errors import ApiError
from serving.settings import ServingSettings

log = logging.getLogger(__name__)

Retrieve = Callable[[Sequence[Query]], list[RetrievalResult]]


class WorkerError(RuntimeError):
    """An error that ends the batch worker, such as SystemExit in its thread."""


@dataclass(slots=True, eq=False)
class _QueueEntry:
    query: Query
    future: asyncio.Future[RetrievalResult]


class Batcher:
    """A bounded queue in front of `retrieve`, which runs in one thread only.

    A batch starts as soon as the thread is free, with what has gathered meanwhile: a lone query waits for nobody, and
    batches grow with the load. If a batch fails, its queries are tried one by one, so that only the bad one gets the
    error. If the worker dies, all waiting queries fail, `problem` says so, and new queries are rejected.

    Args:
        retrieve: Returns one result for each query, in order.
        settings: `max_batch`, `max_queue` and `timeout_s` are read.
    """

    def __init__(self, retrieve: Retrieve, settings: ServingSettings) -> None:
        self._retrieve = retrieve
        self._settings = settings
        self._pending: deque[_QueueEntry] = deque()
        self._running: list[_QueueEntry] = []
        self._running_since = 0.0
        self._arrived = asyncio.Event()
        self._closing = False
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="retrieve")

    async def start(self) -> None:
        """Starts the worker."""
        self._worker = asyncio.create_task(self._work(), name="batch worker")
        self._worker.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Rejects new queries, finishes the waiting ones and ends the worker; gives up after `timeout_s`."""
        self._closing = True
        self._arrived.set()
        if self._worker is not None and not self._worker.done():
            await asyncio.wait({self._worker}, timeout=self._settings.timeout_s)
            self._worker.cancel()
            await asyncio.wait({self._worker})
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def waiting(self) -> int:
        """Number of queries that are waiting for a batch."""
        return len(self._pending)

    def problem(self) -> str | None:
        """Returns why no query can be answered, or `None` if the worker is healthy."""
        if self._closing:
            return "the service is shutting down"
        if self._worker is None:
            return "the batch worker has not started"
        if self._worker.done():
            return "the batch worker has died; restart the service"
        busy = time.monotonic() - self._running_since if self._running else 0.0
        if busy > self._settings.timeout_s:
            return f"the batch worker has been stuck for {busy:.0f} s"
        return None

    def admit(self) -> None:
        """Checks that the queue accepts one more query.

        Raises:
            ApiError: 503 if the worker is not running, 429 if the queue is full.
        """
        problem = self.problem()
        if problem:
            raise ApiError(503, "not_ready", problem)
        if len(self._pending) >= self._settings.max_queue:
            message = f"the queue is full ({len(self._pending)} requests); try again in a second"
            raise ApiError(429, "queue_full", message, headers={"Retry-After": "1"})

    async def submit(self, query: Query) -> RetrievalResult:
        """Returns the result for `query`, which leaves the queue at once when its caller is canceled.

        Raises:
            ApiError: As from `admit`, and 503 if the worker dies in the meantime.
            Exception: What `retrieve` raised for this query.
        """
        self.admit()
        entry = _QueueEntry(query, asyncio.get_running_loop().create_future())
        self._pending.append(entry)
        self._arrived.set()
        try:
            return await entry.future
        finally:
            with suppress(ValueError):
                self._pending.remove(entry)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := await self._collect():
            self._running, self._running_since = batch, time.monotonic()
            outcomes = await loop.run_in_executor(self._thread, self._outcomes, [entry.query for entry in batch])
            self._running = []
            for entry, outcome in zip(batch, outcomes, strict=True):
                if entry.future.done():  # its caller is gone
                    continue
                if isinstance(outcome, Exception):
                    entry.future.set_exception(outcome)
                else:
                    entry.future.set_result(outcome)

    async def _collect(self) -> list[_QueueEntry]:
        """Returns the next batch; it is empty only when the service is closing and no query is waiting."""
        while not self._pending:
            if self._closing:
                return []
            self._arrived.clear()
            await self._arrived.wait()
        size = min(len(self._pending), self._settings.max_batch)
        return [self._pending.popleft() for _ in range(size)]

    def _outcomes(self, queries: Sequence[Query]) -> list[RetrievalResult | Exception]:
        """Returns a result or an error for each query; runs in the worker thread."""
        try:
            results = list(self._retrieve(queries))
            if len(results) != len(queries):
                raise RuntimeError(f"the retriever returned {len(results)} results for {len(queries)} queries")
            return [*results]
        except Exception as error:
            if len(queries) == 1:
                return [error]
            log.warning("a batch of %d failed (%r); trying its members one by one", len(queries), error)
        except BaseException as error:  # otherwise SystemExit and the like would end the event loop from inside a task
            raise WorkerError(repr(error)) from error
        return [outcome for query in queries for outcome in self._outcomes([query])]

    def _ended(self, worker: asyncio.Task[None]) -> None:
        """Fails all queries that wait for a worker that has ended."""
        if not worker.cancelled() and worker.exception():
            log.error("the batch worker died", exc_info=worker.exception())
        for entry in [*self._running, *self._pending]:
            if not entry.future.done():
                entry.future.set_exception(ApiError(503, "not_ready", "the batch worker died before it had finished"))
        self._running = []
