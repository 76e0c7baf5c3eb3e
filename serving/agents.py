"""Answers requests with search agents: the interface of an agent runner, the limit on concurrent runs, and events."""

from __future__ import annotations

import asyncio
import logging
import math
import statistics
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

from search_agents.records import Watch
from search_agents.regions import Box, boxes_of
from search_agents.tools.index import Searcher
from search_agents.trail import AgentAnswer
from serving.errors import ApiError, as_api_error
from serving.fields import CheckedRequest
from serving.schemas import AgentBudget, AnswerOut, ErrorDetail, OnGeneratorError
from serving.service import Service

logger = logging.getLogger(__name__)

AgentEvent = tuple[str, Mapping[str, Any]]
"""A step's name and its JSON values, see `search_agents.schemas`."""

_PING_S = 10.0  # seconds of silence after which a stream sends a keep-alive
_REMEMBERED = 15  # number of recent runs that Retry-After is estimated from


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A question for an agent; `budget` is within the service's limits, `boxes` are in pixels of `image`."""

    mode: str
    question: str
    image: Image.Image
    budget: AgentBudget
    boxes: Sequence[Box] = ()


class AgentRunner(Protocol):
    """Runs agents. All methods are called in the service's event loop."""

    @property
    def modes(self) -> Sequence[str]:
        """The names of the policies."""

    @property
    def model(self) -> str:
        """The name of the chat model that plans."""

    @property
    def limits(self) -> AgentBudget:
        """The largest budget of a run; `None` is unlimited."""

    @property
    def runs(self) -> int:
        """Maximum number of concurrent runs."""

    async def run(self, request: AgentRequest, watch: Watch | None) -> AgentAnswer:
        """Answers a question and passes every step to `watch`; can be canceled."""

    async def aclose(self) -> None:
        """Closes the connections."""


AgentFactory = Callable[[Searcher], AgentRunner]
"""Makes a runner that searches through the service's own batches."""


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A checked run that is ready to start."""

    request: AgentRequest
    request_id: str
    decode_ms: float
    on_error: OnGeneratorError


class AgentRuns:
    """Checks, limits and answers the agent requests of one service.

    Args:
        service: The service that the agents search with.
        make: Makes the runner; `None` if there is no chat model.
    """

    def __init__(self, service: Service, make: AgentFactory | None) -> None:
        self._service = service
        self._runner = None if make is None else make(service)
        self._running = 0
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def modes(self) -> list[str]:
        """The modes that `/answer` accepts, except `retrieve`."""
        return [] if self._runner is None else list(self._runner.modes)

    @property
    def limits(self) -> AgentBudget | None:
        """The largest budget of a run; `None` without agents."""
        return None if self._runner is None else self._runner.limits

    async def prepare(self, checked: CheckedRequest, request_id: str) -> PendingRun:
        """Decodes the image of a request with a mode.

        Raises:
            ApiError: 422 if there is no such mode, the budget is too large, or a box is outside the image; 429 if too
                many agents are running; and those of `Service.decode`.
        """
        runner = self._checked_runner(checked.mode or "")
        budget = _within(checked.budget, runner.limits)
        image, seconds = await self._service.decode(checked)
        if refusal := self._refusal(runner):
            raise refusal
        try:
            boxes = boxes_of(checked.boxes, image)
        except ValueError as error:
            raise ApiError(422, "out_of_range", str(error), param="boxes") from error
        request = AgentRequest(checked.mode or "", checked.question, image, budget, boxes)
        return PendingRun(request, request_id, seconds * 1000, checked.on_generator_error)

    async def answer(self, pending: PendingRun, watch: Watch | None = None) -> AnswerOut:
        """Runs an agent.

        Raises:
            ApiError: 429 if too many agents are running, 424 if the model failed and `on_generator_error` is "fail".
        """
        runner, started = self._checked_runner(pending.request.mode), time.perf_counter()
        with self._place(runner):
            outcome = await runner.run(pending.request, watch)
        seconds = time.perf_counter() - started
        self._seconds.append(seconds)
        failure = None
        if outcome.failure is not None:
            failure = self._service.generator_failure(outcome.failure, pending.request_id)
            if pending.on_error == "fail":
                raise failure from outcome.failure
        trail = outcome.trail.model_copy(update={"failure": failure.message if failure else ""})
        mode, metrics = pending.request.mode, self._service.metrics
        metrics.agent(mode, outcome.answer is None, failure is not None, trail.spent.tokens)
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
            generator=runner.model,
            generator_error=ErrorDetail.model_validate(failure.body()["error"]) if failure else None,
            mode=mode,
            trail=trail,
        )

    async def steps(self, pending: PendingRun) -> AsyncGenerator[AgentEvent | AnswerOut | ApiError | None]:
        """Yields the steps of a run as they happen, then the answer or the error; `None` after 10 s of silence.

        Closing the iterator cancels the run.
        """
        steps: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
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
        """Closes the runner's connections."""
        if self._runner is not None:
            await self._runner.aclose()

    def _checked_runner(self, mode: str) -> AgentRunner:
        if self._runner is None:
            message = f"mode must be retrieve here, got {mode[:40]!r}: agents need a chat model, but "
            message += "generator.base_url and generator.model are not set"
            raise ApiError(422, "mode_not_available", message, param="mode")
        if mode not in self._runner.modes:
            message = f"mode must be one of retrieve, {', '.join(self._runner.modes)}; got {mode[:40]!r}"
            raise ApiError(422, "out_of_range", message, param="mode")
        return self._runner

    def _refusal(self, runner: AgentRunner) -> ApiError | None:
        if self._running < runner.runs:
            return None
        after = max(1, math.ceil(statistics.median(self._seconds or [0]) / runner.runs))
        message = f"{self._running} agents are already running, the maximum; try again in {after} s"
        return ApiError(429, "agents_busy", message, headers={"Retry-After": str(after)})

    @contextmanager
    def _place(self, runner: AgentRunner) -> Iterator[None]:
        if refusal := self._refusal(runner):
            raise refusal
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


def _within(asked: AgentBudget | None, limits: AgentBudget) -> AgentBudget:
    """Returns the service's limits, lowered where the request asks for less.

    Raises:
        ApiError: 422 if the request asks for more than a limit.
    """
    lower = {} if asked is None else asked.model_dump(exclude_none=True)
    for name, value in lower.items():
        most = getattr(limits, name)
        if most is not None and value > most:
            message = f"budget.{name} must be at most {most:g}, got {value:g}"
            raise ApiError(422, "out_of_range", message, param="budget")
    return limits.model_copy(update=lower)
