"""OpenAI's Responses API, `/v1/responses`: the chat route in the format that newer clients use by default."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from retriever.types import Ending
from serving import intake
from serving.chat import OWN_ERRORS, answer_text, text_pieces
from serving.chat_request import openai_errors, read_responses
from serving.chat_schemas import ChatOptions, usage_of
from serving.errors import ApiError, Responses, errors
from serving.events import EVENTS, event, event_stream
from serving.responses_schemas import (
    IncompleteDetailsOut,
    IncompleteReason,
    OutputMessageOut,
    OutputTextOut,
    ResponsesFields,
    ResponsesOut,
    ResponsesUsageOut,
    Status,
)
from serving.schemas import AnswerOut, OnGeneratorError
from serving.service import PendingAnswer, Service

_INCOMPLETE: dict[Ending, IncompleteReason] = {"cut": "max_output_tokens", "filtered": "content_filter"}

_FIELDS = ResponsesFields.model_json_schema()
_FIELDS["properties"]["omgm"] = ChatOptions.model_json_schema()  # in place: OpenAPI has no `$defs` to refer to
del _FIELDS["$defs"]
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _FIELDS}}}}
_RESPONSES: Responses = {200: EVENTS, **errors(408, 429, 503, 504, own=OWN_ERRORS)}


def add_responses_route(app: FastAPI, service: Service) -> None:
    """Adds the route to `app`."""

    @app.post("/v1/responses", response_model=ResponsesOut, responses=_RESPONSES, openapi_extra=_BODY)
    async def respond(request: Request) -> ResponsesOut | Response:
        """Answers a conversation's last question about its latest images, if any, in the format of the Responses API.

        The evidence is in `omgm`, in the response or in a stream's last event. Nothing is stored, so send the whole
        conversation.
        """
        with openai_errors("input"):
            checked, pending = await intake.take_in(
                service, request, read_responses, intake.retrieval(service, request)
            )
        if checked.stream:
            return event_stream(_events(service, pending, checked.on_generator_error))
        answer = await intake.while_connected(request, service.answer(pending, checked.on_generator_error))
        return _response(pending, int(time.time()), answer_text(answer), answer)


async def _events(service: Service, pending: PendingAnswer, on_error: OnGeneratorError) -> AsyncIterator[str]:
    """Yields the answer as events of the API; the last event has the evidence, or is an error."""
    number, created = 0, int(time.time())

    def send(kind: str, **more: Any) -> str:
        nonlocal number
        number += 1
        return event({"type": kind, "sequence_number": number - 1, **more}, kind)

    begun = _response(pending, created).model_dump(mode="json")
    yield send("response.created", response=begun)
    yield send("response.in_progress", response=begun)
    item = _message(pending)
    yield send("response.output_item.added", output_index=0, item=item.model_dump(mode="json"))
    place = {"item_id": item.id, "output_index": 0, "content_index": 0}
    yield send("response.content_part.added", **place, part=OutputTextOut(text="").model_dump(mode="json"))
    text = ""
    async for piece in text_pieces(service, pending, on_error):
        if isinstance(piece, str):
            text += piece
            yield send("response.output_text.delta", **place, delta=piece, logprobs=[])
        elif isinstance(piece, ApiError):
            error = piece.body()  # in both places where clients look for it
            yield send("error", **error, **error["error"] | {"type": "error"})
        else:
            whole = _response(pending, created, text, piece).model_dump(mode="json")
            [item_done] = whole["output"]
            [part] = item_done["content"]
            yield send("response.output_text.done", **place, text=text, logprobs=[])
            yield send("response.content_part.done", **place, part=part)
            yield send("response.output_item.done", output_index=0, item=item_done)
            yield send(f"response.{whole['status']}", response=whole)


def _response(
    pending: PendingAnswer, created: int, text: str | None = None, answer: AnswerOut | None = None
) -> ResponsesOut:
    """Returns the response, which is still in progress if there is no answer."""
    return ResponsesOut(
        id=f"resp_{pending.response.request_id}",
        created_at=created,
        status=_status(answer),
        incomplete_details=_incomplete(answer),
        output=[] if text is None else [_message(pending, text, answer)],
        usage=_usage(answer),
        omgm=answer,
    )


def _usage(answer: AnswerOut | None) -> ResponsesUsageOut:
    if answer is None:
        return ResponsesUsageOut()
    usage = usage_of(answer)
    return ResponsesUsageOut(
        input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, total_tokens=usage.total_tokens
    )


def _status(answer: AnswerOut | None) -> Status:
    if answer is None:
        return "in_progress"
    return "incomplete" if answer.ending in _INCOMPLETE else "completed"


def _incomplete(answer: AnswerOut | None) -> IncompleteDetailsOut | None:
    reason = None if answer is None else _INCOMPLETE.get(answer.ending)
    return None if reason is None else IncompleteDetailsOut(reason=reason)


def _message(pending: PendingAnswer, text: str | None = None, answer: AnswerOut | None = None) -> OutputMessageOut:
    return OutputMessageOut(
        id=f"msg_{pending.response.request_id}",
        status=_status(answer),
        content=[] if text is None else [OutputTextOut(text=text)],
    )
