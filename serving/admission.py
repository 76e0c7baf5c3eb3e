"""Admission control: accepts or refuses requests by their expected wait, estimated from what requests cost lately."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from serving.errors import ApiError
from serving.settings import ServingSettings

UPLOAD_GRACE_S = 1.0
"""Seconds that an upload holds a place in the queue. A slower upload must be admitted again once it is complete."""
_REMEMBERED = 32  # number of recent batches, images and answers behind the estimates
_MANY = 8  # of so many batches, the slowest does not count: the machine may have slept
_BURST = 2
"""How many times as long as `max_wait_s` a request of a burst may wait."""


class Ticket:
    """The place of one request in the queue, from its first byte to the end of its retrieval.

    Attributes:
        since: When its upload began, by the admission's clock.
        limit: The timeout of its upload, if `Admission` may end the upload early.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.limit: asyncio.Timeout | None = None


class Admission:
    """Counts requests until they are answered, and refuses those that would wait too long.

    A request passes two stages, retrieval and generation. The expected wait in each is the number of requests ahead
    times the mean seconds per request of late, in which few expensive requests weigh as much as they cost; the slower
    stage counts. A generator lets requests wait only if it works on as many as it can, so only then its cost is
    measured. A request may wait for `max_wait_s`, and for the generator at least as long as an answer takes.

    Two full batches are always admitted to the retrieval: one to run, and one to keep the models busy after it; three
    if two run at the same time. Until the first batch has been measured, no more than that is admitted.

    In a burst, requests may wait twice `max_wait_s`: otherwise, if many requests came at the same moment, most would be
    refused, and soon after the models would be idle. A burst begins when less than half a batch is inside and nothing
    has been refused for twice `max_wait_s`, and it lasts for `max_wait_s`; so there are none under lasting overload.

    All methods must be called from the event loop's thread.

    Args:
        settings: Uses `max_batch`, `max_queue`, `max_wait_s` and `timeout_s`.
        clock: Returns the time in seconds.
        in_flight: How many batches can run at the same time.
        answers: How many answers the generator can work on at the same time.
    """

    def __init__(
        self,
        settings: ServingSettings,
        clock: Callable[[], float] = time.monotonic,
        in_flight: int = 1,
        answers: int = 1,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._uploading: dict[Ticket, None] = {}  # the oldest first
        self._late: dict[Ticket, None] = {}  # uploads that no longer hold a place; the oldest first
        self._uploaded: set[Ticket] = set()
        self._always = (1 + in_flight) * settings.max_batch
        self._batches: deque[int] = deque()  # the sizes of the running batches; the oldest first
        self._since = 0.0  # when the oldest began to run, or the one before it ended
        self._per_query, self._per_image, self._per_answer = _RecentMean(), _RecentMean(), _RecentMean()
        self._answers, self._answering = answers, 0
        self._spent = self._changed_at = 0.0  # seconds of all answers together, and when their number last changed
        self._burst_at = self._refused_at = -math.inf  # when a burst could last begin; the last refusal

    @property
    def inside(self) -> int:
        """Number of requests that hold a place: uploading, decoding, waiting or in a batch."""
        self._expire()
        return len(self._uploading) + len(self._uploaded)

    def seconds_per_query(self) -> float:
        """Returns the estimated seconds per query: retrieval or decoding, whichever is slower; 0 at the start."""
        # A batch that takes unusually long counts before it ends.
        return max(self._per_query.value, self._per_image.value, self._elapsed() / self._settings.max_batch)

    def wait(self) -> float:
        """Returns the estimated seconds until the models are free for a request that arrives now."""
        per_query = self.seconds_per_query()
        return max(0.0, self.inside * per_query - min(self._elapsed(), sum(self._batches) * per_query))

    def wait_for_generator(self) -> float:
        """Returns the estimated seconds that a request that arrives now will have waited when its answer begins."""
        ahead = self.inside + self._answering + 1 - self._answers
        return max(0, ahead) * self._per_answer.value if self._answering >= self._answers else 0.0

    def refusal(self) -> ApiError | None:
        """Returns the error for a request that arrives now, or `None` if it is admitted."""
        settings, inside = self._settings, self.inside
        if inside - sum(self._batches) >= settings.max_queue:
            return self._refused(self.seconds_per_query(), self.wait())
        wait, longest = self.wait(), self._longest_wait(inside)
        unknown = self._per_query.value == 0  # no batch has ended yet, so there is no estimate
        if inside >= self._always and (unknown or wait > longest):
            return self._refused(wait - settings.max_wait_s, wait)
        answer, wait = self._answers * self._per_answer.value, self.wait_for_generator()
        bearable = min(answer, settings.timeout_s - answer)
        if wait > max(longest, bearable):
            return self._refused(wait - max(settings.max_wait_s, bearable), wait)
        return None

    def enter(self) -> Ticket:
        """Admits a request whose upload begins now.

        Raises:
            ApiError: 429 with Retry-After if it would wait too long.
        """
        if refusal := self.refusal():
            raise refusal
        ticket = Ticket(self._clock())
        self._uploading[ticket] = None
        return ticket

    def uploaded(self, ticket: Ticket) -> None:
        """Keeps the place of a request whose upload is complete, or admits it again if the upload was slow.

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
        """Frees the place of a request; does nothing if it has already left."""
        self._uploading.pop(ticket, None)
        self._late.pop(ticket, None)
        self._uploaded.discard(ticket)

    @contextmanager
    def inner(self, places: int = 1) -> Iterator[None]:
        """Holds places for what an admitted request searches beside: an agent's query, or its further images."""
        tickets = {Ticket(self._clock()) for _ in range(places)}
        self._uploaded |= tickets
        try:
            yield
        finally:
            self._uploaded -= tickets

    def batch_started(self, size: int) -> None:
        """Records that a batch has started."""
        if not self._batches:
            self._since = self._clock()
        self._batches.append(size)

    def batch_ended(self, seconds: float) -> None:
        """Records that the oldest batch has ended.

        Args:
            seconds: How long it took; if that is less, how long ago the one before it ended.
        """
        if self._batches:
            self._per_query.append(seconds, self._batches.popleft())
        self._since = self._clock()

    def decoded(self, seconds: float) -> None:
        """Records how long one image took to decode, in seconds."""
        self._per_image.append(seconds / self._settings.decode_threads)

    @contextmanager
    def answering(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Counts an answer that the generator is writing, and measures it if the generator is full meanwhile.

        By Little's law, the seconds per answer are those that one takes, divided by how many are in progress, whether
        they wait or not. Yields a context manager that leaves out the time in which a client reads part of the answer.
        Otherwise slow clients would make the generator look slow, and the service would refuse other requests.
        """
        took, together = 0.0, 0.0  # seconds, and those of all answers meanwhile

        def count(by: int) -> None:
            nonlocal took, together
            self._spent += self._answering * (self._clock() - self._changed_at)
            self._changed_at = self._clock()
            self._answering += by
            took, together = took - by * self._changed_at, together - by * self._spent

        @contextmanager
        def pause() -> Iterator[None]:
            count(-1)
            try:
                yield
            finally:
                count(+1)

        count(+1)
        try:
            yield pause
        finally:
            count(-1)
            if took and together >= self._answers * took:
                self._per_answer.append(took * took / together)

    def _elapsed(self) -> float:
        return self._clock() - self._since if self._batches else 0.0

    def _longest_wait(self, inside: int) -> float:
        """Returns how long a request may wait, in seconds; begins a burst if there is little to do."""
        now, longest = self._clock(), self._settings.max_wait_s
        if 2 * inside < self._settings.max_batch and now - self._refused_at >= _BURST * longest:
            self._burst_at = now
        return _BURST * longest if now - self._burst_at < longest else longest

    def _expire(self) -> None:
        """Revokes the places of slow uploads; if there are more than `max_queue`, ends the oldest ones with 408."""
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
        self._refused_at = self._clock()
        after = max(1, math.ceil(seconds))
        message = f"the service is busy: a request would wait about {wait:.1f} s; try again in {after} s"
        return ApiError(429, "queue_full", message, headers={"Retry-After": str(after)})


class _RecentMean:
    """The mean of recent values, 0 if there are none; computed when values are added, not for every request."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self.value = 0.0

    def append(self, total: float, count: int = 1) -> None:
        """Adds the total of so many values."""
        self._values.append((total, count))
        values = sorted(self._values, key=lambda part: part[0] / part[1])
        kept = values[:-1] if len(values) >= _MANY else values
        self.value = sum(part for part, _ in kept) / sum(number for _, number in kept)
