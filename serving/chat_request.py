"""Reads the question and the images from a request in OpenAI's format: of the chat API or of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from generators.pointing import points_on
from serving.body import body_limit, content_type_of, read_json
from serving.chat_schemas import IGNORED, INSTEAD, MODEL, NEUTRAL, ChatFields, ChatOptions
from serving.errors import ApiError
from serving.fields import CheckedRequest, check, checked_request
from serving.responses_schemas import RESPONSES_IGNORED, RESPONSES_NEUTRAL, ResponsesFields
from serving.settings import ServingSettings

_IMAGES = 4  # images of the largest size that fit into one conversation
_PARAMS = {"k": "omgm", "alpha": "omgm", "beta": "omgm", "filter": "omgm", "entity": "omgm"}
_SWITCHES = {"tools": "tool_choice", "functions": "function_call"}
"""Parameters that ask for nothing if another one is "none"."""


async def read_chat(request: Request, settings: ServingSettings) -> CheckedRequest:
    """Reads and checks a request of the chat API.

    Raises:
        ApiError: 404 for another model; otherwise as for `/answer`.
    """
    fields = check(ChatFields, _without_parameters(await _read(request, settings), IGNORED, NEUTRAL))
    usage = bool((fields.stream_options or {}).get("include_usage"))
    limits = [limit for limit in (fields.max_tokens, fields.max_completion_tokens) if limit is not None]
    checked = _checked(fields, fields.messages, "messages", settings)
    return replace(checked, stop=tuple(fields.stop or ()), max_tokens=min(limits, default=None), include_usage=usage)


async def read_responses(request: Request, settings: ServingSettings) -> CheckedRequest:
    """Reads and checks a request of the Responses API; raises as `read_chat`."""
    data = await _read(request, settings)
    if isinstance(data, dict) and isinstance(data.get("text"), dict):
        data = {**data, "text": {name: value for name, value in data["text"].items() if name != "verbosity"}}
    fields = check(ResponsesFields, _without_parameters(data, RESPONSES_IGNORED, RESPONSES_NEUTRAL))
    items = [{"role": "user", "content": fields.input}] if isinstance(fields.input, str) else fields.input
    return replace(_checked(fields, items, "input", settings), max_tokens=fields.max_output_tokens)


@contextmanager
def openai_errors(conversation: str) -> Iterator[None]:
    """Converts errors to what OpenAI's clients expect: status 400 for bad content, and OpenAI's parameter names.

    Args:
        conversation: Name of the parameter that holds the question and the image.
    """
    try:
        yield
    except ApiError as error:
        error.status = 400 if error.status in (413, 415, 422) else error.status
        params = {"image": conversation, "images": conversation, "question": conversation, **_PARAMS}
        if error.code != "unknown_option":
            error.param = params.get(error.param or "", error.param)
        elif error.param in ChatOptions.model_fields:
            error.message += f'; write {error.param} into omgm: "omgm": {{"{error.param}": …}}'
        raise


async def _read(request: Request, settings: ServingSettings) -> Any:
    if (kind := content_type_of(request)) != "application/json":
        message = f"the content type must be application/json, got {kind or 'none'}"
        raise ApiError(415, "unsupported_media_type", message)
    limit = body_limit(settings, _IMAGES) / 2**20
    message = f"the conversation is larger than {limit:.3g} MiB; leave out earlier images (serving.max_image_bytes)"
    return await read_json(request, settings, ApiError(413, "conversation_too_large", message), _IMAGES)


def _checked(
    fields: ChatFields | ResponsesFields, messages: list[Any], name: str, settings: ServingSettings
) -> CheckedRequest:
    if fields.model != MODEL:
        message = f"the model {fields.model[:40]!r} does not exist; this service has {MODEL!r}"
        raise ApiError(404, "model_not_found", message, param="model")
    question, images, before = _question_and_images(messages, name)
    if not question.strip():
        raise ApiError(422, "empty_question", "the last user message has no text; its text is the question", param=name)
    if not images:  # maybe a task of a front end itself, such as a title for the conversation, which is long
        question = question[: settings.max_question_chars]
    return checked_request(images, question, fields.omgm, fields.stream, settings, before)


def _without_parameters(data: Any, ignored: frozenset[str], neutral: Mapping[str, tuple[Any, ...]]) -> Any:
    """Returns the request without the OpenAI parameters that have no effect here.

    Raises:
        ApiError: 422 for a parameter that asks for a different kind of answer.
    """
    if not isinstance(data, dict):
        return data
    for name, value in data.items():
        if name in neutral and value not in neutral[name] and data.get(_SWITCHES.get(name)) != "none":
            message = f"{name} is not supported by this service; {INSTEAD.get(name, 'leave it out')}"
            raise ApiError(422, "unsupported_parameter", message, param=name)
    return {name: value for name, value in data.items() if name not in ignored and name not in neutral}


def _question_and_images(messages: list[Any], name: str) -> tuple[str, list[str], list[str]]:
    """Returns the last user message's text, the most recent message's images, and the texts from it on, or all.

    A text that only points at another image ("And this one?") asks what the user message before it asks.
    """
    question, images, before = None, list[str](), list[str]()
    for number, message in reversed(list(enumerate(messages))):
        where = f"{name}[{number}]"
        if isinstance(message, dict) and message.get("type", "message") != "message":  # such as a tool call
            continue
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _wrong(where, "must be an object with a role")
        if message["role"] != "user":
            continue
        text, shown = _parts(message.get("content"), f"{where}.content")
        if question is None or (points_on(question) and text.strip()):
            question = text
        elif not images:
            before.insert(0, text)
        images = images or shown
        if images and not points_on(question):
            break
    if question is None:
        raise _wrong(name, "must have a user message")
    return question, images, before


def _parts(content: Any, where: str) -> tuple[str, list[str]]:
    """Returns the text and the images of a message's content, each once; accepts the part types of both APIs.

    Raises:
        ApiError: 422 if it has a part of another kind.
    """
    if content is None or isinstance(content, str):
        return content or "", []
    if not isinstance(content, list):
        raise _wrong(where, "must be a string or a list of parts")
    texts, images = list[str](), list[str]()
    for number, part in enumerate(content):
        at = f"{where}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text"):
            texts.append(_text(part.get("text"), f"{at}.text"))
        elif kind in ("image_url", "input_image"):
            images.append(_image_url(part.get("image_url"), f"{at}.image_url"))
        else:
            types = "must be text or image_url (input_text or input_image in the Responses API)"
            raise _wrong(f"{at}.type", f"{types}, got {str(kind)[:40]!r}")
    return "\n".join(texts), [*dict.fromkeys(images)]


def _image_url(value: Any, where: str) -> str:
    """Returns the URL of an image, which the chat API wraps in an object."""
    url = value.get("url") if isinstance(value, dict) else value
    if isinstance(url, str) and (url.lstrip()[:5].lower() == "data:" or "://" in url[:20]):
        return url.strip()
    code = "bad_image_url" if isinstance(url, str) else "wrong_type"
    raise ApiError(422, code, f"{where} must be a data URI or an http(s) URL", param=where)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str | None):
        raise _wrong(where, "must be a string")
    return value or ""


def _wrong(where: str, problem: str) -> ApiError:
    return ApiError(422, "wrong_type", f"{where} {problem}", param=where)
