"""Lets requests in by the time that they would wait, estimated from how long the last batches took."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from serving.errors import ApiError
from serving.settings import ServingSettings

UPLOAD_GRACE_S = 1.0
"""An upload holds a place in the queue for so long. A slower one has to be let in again once it is complete."""
_REMEMBERED = 15  # batches and answers that the estimates are of


class Ticket:
    """The place of one request, from its first byte to the end of its retrieval.

    Attributes:
        since: When its upload began, by the admission's clock.
        limit: The time limit of its upload, if that may be ended early.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.limit: asyncio.Timeout | None = None


class Admission:
    """Counts the requests that are on their way to the models and refuses those that would wait for too long.

    The estimate is the number of requests ahead times the median over the last batches of seconds per query, so it
    follows the size of the batches. Two full batches are let in whatever the estimate says: one that runs, and one that
    keeps the models busy after it. No more are let in before the first batch has been measured. All methods are called
    from one thread, that of the event loop.

    Args:
        settings: `max_batch`, `max_queue`, `max_wait_s` and `timeout_s` are read.
        clock: Returns the time in seconds.
    """

    def __init__(self, settings: ServingSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._uploading: dict[Ticket, None] = {}  # the oldest first
        self._late: dict[Ticket, None] = {}  # uploads that no longer hold a place; the oldest first
        self._uploaded: set[Ticket] = set()
        self._running, self._running_since = 0, 0.0
        self._per_query, self._per_image, self._per_answer = _RecentMedian(), _RecentMedian(), _RecentMedian()
        self._answering = 0

    @property
    def inside(self) -> int:
        """Number of requests that hold a place: uploading, decoding, waiting or in a batch."""
        self._expire()
        return len(self._uploading) + len(self._uploaded)

    def seconds_per_query(self) -> float:
        """Returns how long one query takes in batches of the current sizes, or its image to decode; 0 at the start."""
        # A batch that takes unusually long counts before it ends.
        return max(self._per_query.value, self._per_image.value, self._elapsed() / self._settings.max_batch)

    def wait(self) -> float:
        """Returns the estimated seconds until the models are free for a request that comes now."""
        per_query = self.seconds_per_query()
        return max(0.0, self.inside * per_query - min(self._elapsed(), self._running * per_query))

    def refusal(self) -> ApiError | None:
        """Returns the error for a request that comes now, or `None` if it may come in."""
        settings, inside = self._settings, self.inside
        if inside - self._running >= settings.max_queue:
            return self._refused(self.seconds_per_query(), self.wait())
        wait = self.wait()
        unknown = self._per_query.value == 0  # the first batch has yet to end: nobody knows how long more would wait
        if inside >= 2 * settings.max_batch and (unknown or wait > settings.max_wait_s):
            return self._refused(wait - settings.max_wait_s, wait)
        # As long as all that is being answered fits into one batch, the estimate may be of answers long ago.
        answer = self._per_answer.value
        if self._answering >= settings.max_batch and wait + answer > settings.timeout_s:
            return self._refused(answer / self._answering, wait)
        return None

    def enter(self) -> Ticket:
        """Lets a request in, whose upload begins now.

        Raises:
            ApiError: 429 with Retry-After if it would wait for too long.
        """
        if refusal := self.refusal():
            raise refusal
        ticket = Ticket(self._clock())
        self._uploading[ticket] = None
        return ticket

    def uploaded(self, ticket: Ticket) -> None:
        """Keeps the place of a request whose upload is complete, or lets it in again if the upload was slow.

        Raises:
            ApiError: As from `enter`.
        """
        self._expire()
        if ticket in self._late:
            del self._late[ticket]
            if refusal := self.refusal():
                raise refusal
        self._uploading.pop(ticket, None)
        self._uploaded.add(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Frees the place of a request, which may have left before."""
        self._uploading.pop(ticket, None)
        self._late.pop(ticket, None)
        self._uploaded.discard(ticket)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Holds a place for a query of an agent that has been let in before."""
        ticket = Ticket(self._clock())
        self._uploaded.add(ticket)
        try:
            yield
        finally:
            self.leave(ticket)

    def batch_started(self, size: int) -> None:
        """Notes that a batch begins."""
        self._running, self._running_since = size, self._clock()

    def batch_ended(self, seconds: float) -> None:
        """Notes how long the running batch took."""
        if self._running:
            self._per_query.append(seconds / self._running)
        self._running = 0

    def decoded(self, seconds: float) -> None:
        """Notes how long one image took to decode."""
        self._per_image.append(seconds / self._settings.decode_threads)

    @contextmanager
    def answering(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Counts an answer of the generator and notes how long it took.

        What it yields makes a pause, in which a client reads a part of the answer: slow clients say nothing about the
        generator, and could otherwise make the service refuse others.
        """
        started, paused = self._clock(), 0.0

        @contextmanager
        def pause() -> Iterator[None]:
            nonlocal paused
            since = self._clock()
            self._answering -= 1
            try:
                yield
            finally:
                self._answering += 1
                paused += self._clock() - since

        self._answering += 1
        try:
            yield pause
        finally:
            self._answering -= 1
            self._per_answer.append(self._clock() - started - paused)

    def _elapsed(self) -> float:
        return self._clock() - self._running_since if self._running else 0.0

    def _expire(self) -> None:
        """Takes the places of slow uploads; of more than `max_queue`, the oldest end with 408, as if out of time."""
        before = self._clock() - UPLOAD_GRACE_S
        while self._uploading and (oldest := next(iter(self._uploading))).since < before:
            del self._uploading[oldest]
            self._late[oldest] = None
        while len(self._late) > self._settings.max_queue:
            oldest = next(iter(self._late))
            del self._late[oldest]
            if oldest.limit is not None:
                oldest.limit.reschedule(0)

    def _refused(self, seconds: float, wait: float) -> ApiError:
        after = max(1, math.ceil(seconds))
        message = f"the service is busy: a request would wait about {wait:.1f} s; try again in {after} s"
        return ApiError(429, "queue_full", message, headers={"Retry-After": str(after)})


class _RecentMedian:
    """The median of the last values, 0 without any; computed when one is added, not for every request."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=_REMEMBERED)
        self.value = 0.0

    def append(self, value: float) -> None:
        self._values.append(value)
        self.value = statistics.median(self._values)
