"""Reads a question with its image from an HTTP request, multipart or JSON, within the limits."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from retriever.types import Options
from serving.errors import ApiError, validation_message
from serving.fetch import fetch_image
from serving.images import parse_base64, parse_data_uri, too_many_bytes
from serving.schemas import OnGeneratorError, RequestFields, RequestOptions
from serving.settings import ServingSettings

_OVERHEAD = 64 * 1024  # bytes of a body besides the image: question, options, boundaries
_MAX_EXCESS = 4  # a body is read up to this multiple of the limit
_FORM_FIELDS = ("image", "question", "options")
_RANGES = {"greater_than_equal", "less_than_equal", "finite_number", "literal_error"}
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request whose fields are checked; `image` is bytes, or still base64, a data URI or a URL."""

    image: bytes | str
    question: str
    options: Options
    stream: bool
    on_generator_error: OnGeneratorError


async def read_request(request: Request, settings: ServingSettings) -> CheckedRequest:
    """Reads and checks a request.

    Raises:
        ApiError: 400 if it is malformed, 413 if it is too large, 415 for another content type, 422 for a bad field.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        return await _read_multipart(request, settings)
    if content_type == "application/json":
        return await _read_json(request, settings)
    message = f"the content type must be multipart/form-data or application/json, got {content_type or 'none'}"
    raise ApiError(415, "unsupported_media_type", message)


async def image_bytes(image: bytes | str, settings: ServingSettings) -> bytes:
    """Returns the image's bytes, decoded from base64 or fetched from its URL if necessary.

    Raises:
        ApiError: The base64 or the URL is malformed, the host is not allowed, or the image is too large.
    """
    if isinstance(image, bytes):
        return image
    if image[:5].lower() == "data:":
        return parse_data_uri(image, settings)
    if "://" in image[:20]:
        return await fetch_image(image, settings)
    return parse_base64(image, settings)


async def _read_json(request: Request, settings: ServingSettings) -> CheckedRequest:
    body = b"".join([chunk async for chunk in _limited(request, settings)])
    fields = _check(RequestFields, _parse_json(body, "the body", None))
    if not fields.image:
        raise _no_image()
    return _checked(fields.image, fields.question, fields, settings)


async def _read_multipart(request: Request, settings: ServingSettings) -> CheckedRequest:
    form = _FormParser(
        request.headers, _limited(request, settings), max_files=3, max_fields=8, max_part_size=_body_limit(settings)
    )
    try:
        data = await form.parse()
    except MultiPartException as error:
        raise ApiError(400, "malformed_multipart", f"malformed multipart body: {error.message}") from error
    try:
        if not form.complete:
            raise ApiError(400, "malformed_multipart", "malformed multipart body: the closing boundary is missing")
        for name, count in ((name, len(data.getlist(name))) for name in data):
            if name not in _FORM_FIELDS:
                raise _unknown(name, _FORM_FIELDS)
            if count > 1:
                raise ApiError(422, "duplicate_field", f"{name} is given {count} times", param=name)
        question, text = data.get("question"), data.get("options", "{}")
        if question is None:
            raise ApiError(422, "missing_question", "question is missing", param="question")
        for name, value in (("question", question), ("options", text)):
            if not isinstance(value, str):
                raise ApiError(422, "wrong_type", f"{name} must be a text field, not a file", param=name)
        options = _check(RequestOptions, _parse_json(str(text) or "{}", "options", "options"), "options")
        return _checked(await _form_image(data.get("image"), settings), str(question), options, settings)
    finally:
        await data.close()


async def _form_image(part: UploadFile | str | None, settings: ServingSettings) -> bytes | str:
    if not part:
        raise _no_image()
    if isinstance(part, str):
        return part
    if (part.size or 0) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    return await part.read()


def _checked(image: bytes | str, question: str, options: RequestOptions, settings: ServingSettings) -> CheckedRequest:
    question = question.strip()
    if not question:
        raise ApiError(422, "empty_question", "the question is empty", param="question")
    if len(question) > settings.max_question_chars:
        message = f"the question has {len(question)} characters; at most {settings.max_question_chars} are accepted"
        raise ApiError(422, "question_too_long", message, param="question")
    if not _is_unicode(question):
        raise ApiError(
            422, "wrong_type", "the question is not valid Unicode: it has a lone surrogate", param="question"
        )
    if options.k is not None and options.k > settings.max_k:
        raise ApiError(422, "out_of_range", f"k must be between 1 and {settings.max_k}, got {options.k}", param="k")
    chosen = Options(options.k, options.alpha, options.beta)
    return CheckedRequest(image, question, chosen, options.stream, options.on_generator_error)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can express a lone surrogate, which no tokenizer accepts
        return False
    return True


def _parse_json(text: bytes | str, name: str, param: str | None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "malformed_json", f"{name} is not valid JSON: {error}", param=param) from error


def _check(model: type[Model], data: Any, name: str = "the body") -> Model:
    if not isinstance(data, dict):
        raise ApiError(422, "wrong_type", f"{name} must be a JSON object", param=None if name == "the body" else name)
    for key in data:
        if key not in model.model_fields:
            raise _unknown(key, tuple(model.model_fields))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    param = str(first["loc"][0])
    if first["type"] == "missing":
        raise ApiError(422, f"missing_{param}", f"{param} is missing", param=param)
    code = "out_of_range" if first["type"] in _RANGES else "wrong_type"
    raise ApiError(422, code, validation_message(param, first["msg"]), param=param)


def _unknown(name: str, known: tuple[str, ...]) -> ApiError:
    shown = name.encode("utf-8", "replace").decode()
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    message = f"unknown field {shown!r}; known fields are {', '.join(sorted(known))}"
    if known == _FORM_FIELDS and name in RequestOptions.model_fields:
        message += f'; write {name} into options, such as options={{"{name}": …}}'
    return ApiError(422, "unknown_option", message, param=shown)


def _no_image() -> ApiError:
    return ApiError(422, "missing_image", "image is missing", param="image")


def _body_limit(settings: ServingSettings) -> int:
    return settings.max_image_bytes * 3 // 2 + _OVERHEAD  # either form may have base64, with line breaks


async def _limited(request: Request, settings: ServingSettings) -> AsyncGenerator[bytes, None]:
    """Yields the body's chunks up to the limit.

    Most clients read the response only after they have sent everything, so the rest is read and thrown away, up to
    `_MAX_EXCESS` times the limit; a larger upload is cut off.
    """
    error, limit = too_many_bytes(settings), _body_limit(settings)
    cut = _MAX_EXCESS * limit
    declared = request.headers.get("content-length", "")
    seen = 0
    if not (declared.isdecimal() and int(declared) > cut):
        async for chunk in request.stream():
            seen += len(chunk)
            if seen <= limit:
                yield chunk
            elif seen > cut:
                break
        else:
            if seen > limit:
                raise error
            return
    error.headers["Connection"] = "close"
    raise error


class _FormParser(MultiPartParser):
    """A form parser that knows whether it has seen the closing boundary."""

    complete = False

    def on_end(self) -> None:
        """Records the closing boundary."""
        self.complete = True
