"""The routes for OpenAI-compatible clients: `/v1/chat/completions` and `/v1/models`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from generators.stop import before_stop
from serving import intake
from serving.chat_request import openai_errors, read_chat
from serving.chat_schemas import (
    FINISH_REASONS,
    MODEL,
    ChatChoiceOut,
    ChatCompletionOut,
    ChatFields,
    ChatMessageOut,
    ChatOptions,
    FinishReason,
    ModelOut,
    ModelsOut,
    usage_of,
)
from serving.errors import ApiError, Responses, errors
from serving.events import EVENTS, event, event_stream
from serving.fields import CheckedRequest
from serving.schemas import AnswerOut, OnGeneratorError
from serving.service import PendingAnswer, Service

_FIELDS = ChatFields.model_json_schema()
_FIELDS["properties"]["omgm"] = ChatOptions.model_json_schema()  # in place: OpenAPI has no `$defs` to refer to
del _FIELDS["$defs"]
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _FIELDS}}}}
OWN_ERRORS = {
    400: "A message, its image or a parameter is at fault.",
    404: "There is no such model.",
    424: "The generator failed.",
}
"""What the statuses of both OpenAI routes mean."""
READ = "\n(read on the image)"
"""What follows an answer that is not from an article, unless stop strings are to end it."""
_RESPONSES: Responses = {200: EVENTS, **errors(408, 429, 503, 504, own=OWN_ERRORS)}


def add_chat_routes(app: FastAPI, service: Service) -> None:
    """Adds the OpenAI-compatible routes to `app`."""
    model = ModelOut(created=int(time.time()))

    @app.post("/v1/chat/completions", response_model=ChatCompletionOut, responses=_RESPONSES, openapi_extra=_BODY)
    async def complete_chat(request: Request) -> ChatCompletionOut | Response:
        """Answers the last question of a conversation about its latest images, if any, in the shape of OpenAI's API.

        The evidence is in `omgm`: of the response, or of a stream's last chunk with a choice.
        """
        with openai_errors("messages"):
            checked, pending = await intake.take_in(service, request, read_chat, intake.retrieval(service, request))
        if checked.stream:
            return event_stream(_chunks(service, pending, checked))
        answer = await intake.while_connected(request, service.answer(pending, checked.on_generator_error))
        message = ChatMessageOut(content=answer_text(answer, checked.stop))
        return ChatCompletionOut(
            id=_id(pending),
            created=int(time.time()),
            choices=[ChatChoiceOut(message=message, finish_reason=_finish_reason(answer))],
            usage=usage_of(answer),
            omgm=answer,
        )

    @app.get("/v1/models", responses=errors())
    async def list_models() -> ModelsOut:
        """Lists the one model of this service, in the shape of OpenAI's API."""
        return ModelsOut(data=[model])

    @app.get("/v1/models/{name}", responses=errors(own={404: "There is no such model.", 422: "The name is not text."}))
    async def get_model(name: str) -> ModelOut:
        """Describes the one model of this service, in the shape of OpenAI's API."""
        if name != MODEL:
            message = f"the model {name[:40]!r} does not exist; this service has {MODEL!r}"
            raise ApiError(404, "model_not_found", message, param="model")
        return model


async def _chunks(service: Service, pending: PendingAnswer, checked: CheckedRequest) -> AsyncIterator[str]:
    """Yields the answer as OpenAI chunks: the evidence with the last choice, or an error instead, then the usage."""
    head = {"id": _id(pending), "object": "chat.completion.chunk", "created": int(time.time()), "model": MODEL}

    def chunk(delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return event({**head, "choices": [choice], **more})

    yield chunk({"role": "assistant", "content": ""})
    async for piece in text_pieces(service, pending, checked.on_generator_error):
        if isinstance(piece, str):
            yield chunk({"content": piece})
        elif isinstance(piece, ApiError):
            yield event(piece.body())
            return
        else:
            yield chunk({}, _finish_reason(piece), omgm=piece.model_dump(mode="json"))
            if checked.include_usage:
                yield event({**head, "choices": [], "usage": usage_of(piece).model_dump()})
    yield "data: [DONE]\n\n"


async def text_pieces(
    service: Service, pending: PendingAnswer, on_error: OnGeneratorError
) -> AsyncIterator[str | AnswerOut | ApiError]:
    """Yields the text of an answer piece by piece, then the whole answer, or an error in its place.

    An answer that is null ends with the sentence that says so, and one from the image with `READ`.
    """
    sent, stop = "", pending.request.stop
    async for piece in service.stream_answer(pending, on_error):
        if isinstance(piece, str):
            sent += piece
        elif isinstance(piece, AnswerOut) and piece.answer is None:
            yield before_stop(f"\n{answer_text(piece)}", stop) if sent else answer_text(piece, stop)
        elif isinstance(piece, AnswerOut) and piece.quote and not stop:
            yield READ
        yield piece


def answer_text(answer: AnswerOut, stop: Sequence[str] = ()) -> str:
    """Returns the answer, or a sentence that explains why there is none: many chat clients show only the text."""
    if answer.answer is not None:
        return answer.answer + READ if answer.quote and not stop else answer.answer
    if answer.generator_error is not None:
        return before_stop(f"No answer: {answer.generator_error.message}.", stop)
    return before_stop(f"No answer: {answer.reason}." if answer.reason else "No answer found.", stop)


def _finish_reason(answer: AnswerOut) -> FinishReason:
    return FINISH_REASONS.get(answer.ending, "stop")


def _id(pending: PendingAnswer) -> str:
    return f"chatcmpl-{pending.response.request_id}"
