"""Server-sent events: the streams of `/retrieve` and of `/answer`, with and without an agent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from serving.errors import ApiError
from serving.modes import ModeRuns, PendingRun
from serving.schemas import AnswerOut, OnGeneratorError, RetrieveOut
from serving.service import PendingAnswer, Service

SILENCE_S = 15.0
"""Seconds without an event after which a stream has a comment; many proxies wait for a minute."""
_IN_DONE = {"timings_ms", "request_id", "entity", "evidence"}
"""Fields of `RetrieveOut` that the last event has too, as the answer needs them. The first has the rest."""

_ESCAPED = {mark: f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters that some clients, such as httpx's `iter_lines`, treat as line breaks."""

EVENTS: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""OpenAPI's description of a successful response that may be a stream."""


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """Returns a response that sends events as they arrive."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return _KeptOpen(events, media_type="text/event-stream", headers=headers)


class _KeptOpen(StreamingResponse):
    """Sends events, and a comment whenever there has been none for a while: proxies close silent connections."""

    async def stream_response(self, send: Send) -> None:
        sent = time.monotonic()

        async def sending(message: Message) -> None:
            nonlocal sent
            sent = time.monotonic()
            await send(message)

        async def comment() -> None:
            while True:
                await asyncio.sleep(sent + SILENCE_S - time.monotonic())
                if time.monotonic() >= sent + SILENCE_S:
                    await sending({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})

        comments = asyncio.create_task(comment())
        try:
            await super().stream_response(sending)
        finally:
            comments.cancel()
            if isinstance(self.body_iterator, AsyncGenerator):
                await self.body_iterator.aclose()


def event(data: Mapping[str, Any], name: str = "") -> str:
    """Returns one event, whose data every client reads as a single line."""
    content = json.dumps(data, ensure_ascii=False)
    for mark, escaped in _ESCAPED.items():  # `translate` would look up every character
        content = content.replace(mark, escaped)
    return (f"event: {name}\n" if name else "") + f"data: {content}\n\n"


async def answer_events(service: Service, pending: PendingAnswer, on_error: OnGeneratorError) -> AsyncIterator[str]:
    """Yields `retrieval`, then pieces of the `answer`, then `done` with the whole answer, or `error` in its place."""
    yield event(pending.response.model_dump(mode="json"), "retrieval")
    async for piece in service.stream_answer(pending, on_error):
        if isinstance(piece, str):
            yield event({"text": piece}, "answer")
        elif isinstance(piece, AnswerOut):
            sent = set(RetrieveOut.model_fields) - _IN_DONE
            yield event(piece.model_dump(mode="json", exclude=sent), "done")
        elif isinstance(piece, ApiError):
            yield event(piece.body(), "error")


async def agent_events(runs: ModeRuns, pending: PendingRun) -> AsyncIterator[str]:
    """Yields the steps of an agent, then `done` with the whole answer, or `error` in its place."""
    async with aclosing(runs.steps(pending)) as steps:  # closed as soon as the client disconnects, which ends the run
        async for step in steps:
            if step is None:
                yield ": waiting\n\n"
            elif isinstance(step, AnswerOut):
                yield event(step.model_dump(mode="json"), "done")
            elif isinstance(step, ApiError):
                yield event(step.body(), "error")
            else:
                name, values = step
                yield event(values, name)


async def retrieval_events(pending: PendingAnswer) -> AsyncIterator[str]:
    """Yields `retrieval`, then `done`."""
    yield event(pending.response.model_dump(mode="json"), "retrieval")
    yield event({"request_id": pending.response.request_id}, "done")
