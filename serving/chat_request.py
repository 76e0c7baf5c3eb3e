"""Reads question and image from a chat request of the OpenAI shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from serving.body import body_limit, content_type_of, read_json
from serving.chat_schemas import IGNORED, MODEL, NEUTRAL, ChatFields
from serving.errors import ApiError
from serving.fields import CheckedRequest, check, checked_request
from serving.settings import ServingSettings

_IMAGES = 4  # of the largest size, in one conversation
_PARAMS = {"image": "messages", "question": "messages", "k": "omgm", "alpha": "omgm", "beta": "omgm"}


async def read_chat(request: Request, settings: ServingSettings) -> CheckedRequest:
    """Reads and checks a chat request.

    Raises:
        ApiError: 404 for another model; otherwise as for `/answer`.
    """
    if (kind := content_type_of(request)) != "application/json":
        raise ApiError(
            415, "unsupported_media_type", f"the content type must be application/json, got {kind or 'none'}"
        )
    limit = body_limit(settings, _IMAGES) / 2**20
    message = f"the conversation is larger than {limit:.3g} MiB; leave out earlier images"
    data = await read_json(request, settings, ApiError(413, "conversation_too_large", message), _IMAGES)
    fields = check(ChatFields, _without_parameters(data))
    if fields.model != MODEL:
        message = f"the model {fields.model[:40]!r} does not exist; this service has {MODEL!r}"
        raise ApiError(404, "model_not_found", message, param="model")
    question, image = _question_and_image(fields.messages)
    if image is None:
        raise ApiError(
            422, "missing_image", "no user message has an image; send it as a part of type image_url", param="messages"
        )
    return checked_request(image, question, fields.omgm, bool(fields.stream), settings)


@contextmanager
def openai_errors() -> Iterator[None]:
    """Raises errors as OpenAI's clients know them: any fault of the request's content is 400, of its own parameter."""
    try:
        yield
    except ApiError as error:
        error.status = 400 if error.status in (413, 415, 422) else error.status
        error.param = _PARAMS.get(error.param or "", error.param)
        raise


def _without_parameters(data: Any) -> Any:
    """Returns the request without OpenAI's parameters that change nothing here.

    Raises:
        ApiError: 422 for a parameter that asks for another kind of answer.
    """
    if not isinstance(data, dict):
        return data
    for name, value in data.items():
        if name in NEUTRAL and value not in NEUTRAL[name]:
            message = f"{name} is not supported by this service; leave it out"
            raise ApiError(422, "unsupported_parameter", message, param=name)
    return {name: value for name, value in data.items() if name not in IGNORED and name not in NEUTRAL}


def _question_and_image(messages: list[Any]) -> tuple[str, str | None]:
    """Returns the last user message's text, and its last image or the most recent one before it."""
    question: str | None = None
    for number, message in reversed(list(enumerate(messages))):
        where = f"messages[{number}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _wrong(where, "must be an object with a role")
        if message["role"] != "user":
            continue
        text, image = _parts(message.get("content"), f"{where}.content")
        question = text if question is None else question
        if image is not None:
            return question, image
    if question is None:
        raise _wrong("messages", "must have a user message")
    return question, None


def _parts(content: Any, where: str) -> tuple[str, str | None]:
    """Returns the text and the last image of a message's content."""
    if isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        raise _wrong(where, "must be a string or a list of parts")
    texts, image = [], None
    for number, part in enumerate(content):
        at = f"{where}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(_string(part.get("text"), f"{at}.text"))
        elif kind == "image_url":
            image = _image_url(part.get("image_url"), f"{at}.image_url")
        else:
            raise _wrong(f"{at}.type", "must be text or image_url")
    return "\n".join(texts), image


def _image_url(value: Any, where: str) -> str:
    url = _string(value.get("url") if isinstance(value, dict) else None, f"{where}.url").strip()
    if url[:5].lower() != "data:" and "://" not in url[:20]:
        raise ApiError(422, "bad_image_url", f"{where}.url must be a data URI or an http(s) URL", param=where)
    return url


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "must be a string")
    return value


def _wrong(where: str, problem: str) -> ApiError:
    return ApiError(422, "wrong_type", f"{where} {problem}", param=where)
