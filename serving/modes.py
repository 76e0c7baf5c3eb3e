"""Modes of `/answer`, such as search agents: what the service asks of one, the limit on concurrent runs, and events."""

from __future__ import annotations

import asyncio
import logging
import math
import statistics
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

from retriever.filters import SCOPE, within
from retriever.searching import Searcher
from retriever.trail_views import TrailOut, Watch
from serving.errors import ApiError, as_api_error
from serving.fields import CheckedRequest, no_image
from serving.schemas import AgentBudget, AnswerOut, ErrorDetail
from serving.service import Service

logger = logging.getLogger(__name__)

ModeEvent = tuple[str, Mapping[str, Any]]
"""A step's name and its JSON values, see `retriever.trail_views`."""

_PING_S = 10.0  # seconds of silence after which a stream sends a keep-alive
_REMEMBERED = 15  # number of recent runs that Retry-After is estimated from


@dataclass(frozen=True, slots=True)
class ModeRequest:
    """A question for a mode.

    Attributes:
        question: The question.
        image: The image.
        budget: The limits of the run; `None` is unlimited.
        boxes: Regions of the image that the model may refer to by number, see `RequestOptions.boxes`.
    """

    question: str
    image: Image.Image
    budget: AgentBudget
    boxes: Sequence[Sequence[float]] = ()


class ModeAnswer(Protocol):
    """The result of a run."""

    @property
    def answer(self) -> str | None:
        """The answer; `None` if there is none."""

    @property
    def failure(self) -> Exception | None:
        """The model's error, if it failed."""

    @property
    def trail(self) -> TrailOut:
        """How the answer was reached."""


ModeRun = Callable[[Watch | None], Awaitable[ModeAnswer]]
"""Answers a question and passes every step to the callback; can be canceled."""


class Mode(Protocol):
    """A way to answer questions besides retrieval. It is called in the service's event loop."""

    @property
    def model(self) -> str:
        """The name of the chat model that plans."""

    def begin(self, request: ModeRequest) -> ModeRun:
        """Checks a request; returns the function that runs it.

        Raises:
            ValueError: A box is outside the image.
        """


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of a service, with their limits.

    Attributes:
        open: Makes them by name; they search through the service's own batches, and register what is to be closed.
        limits: The largest budget of a run; `None` is unlimited.
        runs: Maximum number of concurrent runs.
    """

    open: Callable[[Searcher, AsyncExitStack], Mapping[str, Mode]]
    limits: AgentBudget
    runs: int


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A checked run that is ready to start."""

    checked: CheckedRequest
    mode: str
    model: str
    run: ModeRun
    request_id: str
    decode_ms: float


class ModeRuns:
    """Checks, limits and answers the requests of one service that name a mode.

    Args:
        service: The service that the modes search with.
        modes: Its modes; `None` if there is no chat model.

    Attributes:
        modes: The modes that `/answer` accepts, except `retrieve`.
        limits: The largest budget of a run; `None` without modes.
    """

    def __init__(self, service: Service, modes: Modes | None) -> None:
        self._service = service
        self._closing = AsyncExitStack()
        self.modes = {} if modes is None else modes.open(service, self._closing)
        self.limits = None if modes is None else modes.limits
        self._most = 0 if modes is None else modes.runs
        self._running = 0
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    async def prepare(self, checked: CheckedRequest, request_id: str) -> PendingRun:
        """Decodes the image of a request with a mode.

        Raises:
            ApiError: 422 if there is no such mode, not one image, the budget is too large, or a box is outside the
                image; 429 if too many agents are running; and those of `Service.decode`.
        """
        name = checked.mode or ""
        mode, limits = self._checked(name)
        budget = _within(checked.budget, limits)
        await self._service.check_filter(checked)
        if not checked.images:
            raise no_image("; an agent looks at one")
        if len(checked.images) > 1:
            message = "an agent looks at one image; send one, or leave mode out"
            raise ApiError(422, "several_images", message, param="images")
        [image], seconds = await self._service.decode(checked)
        if refusal := self._refusal():
            raise refusal
        try:
            run = mode.begin(ModeRequest(checked.question, image, budget, checked.boxes))
        except ValueError as error:
            raise ApiError(422, "out_of_range", str(error), param="boxes") from error
        return PendingRun(checked, name, mode.model, run, request_id, seconds * 1000)

    async def answer(self, pending: PendingRun, watch: Watch | None = None) -> AnswerOut:
        """Runs a mode.

        Raises:
            ApiError: 429 if too many agents are running, 424 if the model failed and `on_generator_error` is "fail".
        """
        started, checked = time.perf_counter(), pending.checked
        with self._place(), within(checked.options.filter):
            outcome, filter = await pending.run(watch), SCOPE.get()
        seconds = time.perf_counter() - started
        self._seconds.append(seconds)
        failure = None
        if outcome.failure is not None:
            failure = self._service.generator_failure(outcome.failure, pending.request_id)
            if checked.on_generator_error == "fail":
                raise failure from outcome.failure
        trail = outcome.trail.model_copy(update={"failure": failure.message if failure else ""})
        self._service.metrics.agent(pending.mode, outcome.answer is None, failure is not None, trail.spent.tokens)
        return AnswerOut(
            entity=None,
            evidence=[],
            candidates=[],
            timings_ms={
                "decode": round(pending.decode_ms, 2),
                "agent": round(seconds * 1000, 2),
                "total": round(pending.decode_ms + seconds * 1000, 2),
            },
            request_id=pending.request_id,
            index=self._service.view.about(),
            answer=outcome.answer,
            confidence=None,
            abstained=outcome.answer is None and failure is None,
            context_truncated=False,
            generator=pending.model,
            generator_error=ErrorDetail.model_validate(failure.body()["error"]) if failure else None,
            mode=pending.mode,
            filter=dict(filter) or None,
            trail=trail,
        )

    async def steps(self, pending: PendingRun) -> AsyncGenerator[ModeEvent | AnswerOut | ApiError | None]:
        """Yields the steps of a run as they happen, then the answer or the error; `None` after 10 s of silence.

        Closing the iterator cancels the run.
        """
        steps: asyncio.Queue[ModeEvent | None] = asyncio.Queue()
        task = asyncio.ensure_future(self.answer(pending, lambda name, values: steps.put_nowait((name, values))))
        task.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while True:
                try:
                    async with asyncio.timeout(_PING_S):
                        step = await steps.get()
                except TimeoutError:
                    yield None
                    continue
                if step is None:
                    break
                yield step
            try:
                yield task.result()
            except Exception as error:
                yield as_api_error(error, pending.request_id)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def aclose(self) -> None:
        """Closes the connections of the modes."""
        await self._closing.aclose()

    def _checked(self, name: str) -> tuple[Mode, AgentBudget]:
        if self.limits is None:
            message = f"mode must be retrieve here, got {name[:40]!r}: agents need a chat model, but "
            message += "generator.base_url and generator.model are not set"
            raise ApiError(422, "mode_not_available", message, param="mode")
        if name not in self.modes:
            message = f"mode must be one of retrieve, {', '.join(self.modes)}; got {name[:40]!r}"
            raise ApiError(422, "out_of_range", message, param="mode")
        return self.modes[name], self.limits

    def _refusal(self) -> ApiError | None:
        if self._running < self._most:
            return None
        after = max(1, math.ceil(statistics.median(self._seconds or [0]) / self._most))
        message = f"{self._running} agents are already running, the maximum; try again in {after} s"
        return ApiError(429, "agents_busy", message, headers={"Retry-After": str(after)})

    @contextmanager
    def _place(self) -> Iterator[None]:
        if refusal := self._refusal():
            raise refusal
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


def _within(budget: AgentBudget | None, limits: AgentBudget) -> AgentBudget:
    """Returns the service's limits, lowered where the request asks for less.

    Raises:
        ApiError: 422 if the request asks for more than a limit.
    """
    lower = {} if budget is None else budget.model_dump(exclude_none=True)
    for name, value in lower.items():
        most = getattr(limits, name)
        if most is not None and value > most:
            message = f"budget.{name} must be at most {most:g}, got {value:g}"
            raise ApiError(422, "out_of_range", message, param="budget")
    return limits.model_copy(update=lower)
