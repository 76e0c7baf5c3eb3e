"""Reads a question with its picture from an HTTP request, multipart or JSON, never beyond the limits."""

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
from serving.errors import ApiError
from serving.fetch import fetch_image
from serving.images import parse_data_uri, too_many_bytes
from serving.schemas import AskFields, AskOptions, OnGeneratorError
from serving.settings import ServingSettings

_OVERHEAD = 64 * 1024  # bytes that a body may have besides the image: question, options, boundaries
_PATIENCE = 4  # times the limit
_FORM_FIELDS = ("image", "question", "options")
_RANGES = {"greater_than_equal", "less_than_equal", "finite_number", "literal_error"}
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, checked. `image` holds the picture's bytes, or the data URI or URL that stands for them."""

    image: bytes | str
    question: str
    options: Options
    stream: bool
    on_generator_error: OnGeneratorError


async def read_ask(request: Request, settings: ServingSettings) -> Ask:
    """Returns what the request asks.

    Raises:
        ApiError: 400 malformed, 413 too large (found while reading), 415 another content type, 422 a bad field.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _read_multipart(request, settings)
    if kind == "application/json":
        return await _read_json(request, settings)
    message = f"send multipart/form-data or application/json, not {kind or 'a body without content type'}"
    raise ApiError(415, "unsupported_media_type", message)


async def image_bytes(image: bytes | str, settings: ServingSettings) -> bytes:
    """Returns the picture's bytes, decoded from its data URI or fetched from its URL where need be."""
    if isinstance(image, bytes):
        return image
    if image[:5].lower() == "data:":
        return parse_data_uri(image, settings)
    return await fetch_image(image, settings)


async def _read_json(request: Request, settings: ServingSettings) -> Ask:
    limit = settings.max_image_bytes * 4 // 3 + _OVERHEAD
    body = b"".join([chunk async for chunk in _limited(request, limit, settings)])
    fields = _check(AskFields, _parse_json(body, "the body", None))
    if not fields.image:
        raise _no_image()
    return _ask(fields.image, fields.question, fields, settings)


async def _read_multipart(request: Request, settings: ServingSettings) -> Ask:
    limit = settings.max_image_bytes * 4 // 3 + _OVERHEAD  # an image field may be a data URI too
    form = _Form(request.headers, _limited(request, limit, settings), max_files=1, max_fields=8, max_part_size=limit)
    try:
        data = await form.parse()
    except MultiPartException as error:
        raise ApiError(400, "malformed_multipart", f"malformed multipart body: {error.message}") from error
    try:
        if not form.complete:
            raise ApiError(400, "malformed_multipart", "malformed multipart body: it ends before its last boundary")
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
        options = _check(AskOptions, _parse_json(str(text) or "{}", "options", "options"), "options")
        return _ask(await _form_image(data.get("image"), settings), str(question), options, settings)
    finally:
        await data.close()


async def _form_image(part: UploadFile | str | None, settings: ServingSettings) -> bytes | str:
    if not part:
        raise _no_image()
    if isinstance(part, str):
        return part
    if (part.size or 0) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    data = await part.read()
    if not data:
        raise _no_image()
    return data


def _ask(image: bytes | str, question: str, options: AskOptions, settings: ServingSettings) -> Ask:
    question = question.strip()
    if not question:
        raise ApiError(422, "empty_question", "the question is empty", param="question")
    if len(question) > settings.max_question_chars:
        message = f"the question has {len(question)} characters; at most {settings.max_question_chars} are taken"
        raise ApiError(422, "question_too_long", message, param="question")
    if not _is_unicode(question):
        raise ApiError(422, "wrong_type", "the question holds half a surrogate pair", param="question")
    if options.k is not None and options.k > settings.max_k:
        raise ApiError(422, "out_of_range", f"k must be between 1 and {settings.max_k}, not {options.k}", param="k")
    chosen = Options(options.k, options.alpha, options.beta)
    return Ask(image, question, chosen, options.stream, options.on_generator_error)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair, which no tokenizer takes
        return False
    return True


def _parse_json(text: bytes | str, name: str, param: str | None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "malformed_json", f"{name}: malformed JSON: {error}", param=param) from error


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
    raise ApiError(422, code, f"{param}: {first['msg']}", param=param)


def _unknown(name: str, known: tuple[str, ...]) -> ApiError:
    shown = name.encode("utf-8", "replace").decode()
    shown = shown if len(shown) <= 40 else shown[:40] + "…"
    message = f"unknown option {shown!r}; known are {', '.join(sorted(known))}"
    return ApiError(422, "unknown_option", message, param=shown)


def _no_image() -> ApiError:
    return ApiError(422, "missing_image", "image is missing: send a picture", param="image")


async def _limited(request: Request, limit: int, settings: ServingSettings) -> AsyncGenerator[bytes, None]:
    """Yields the body's chunks up to the limit.

    What lies beyond is read and thrown away for a while, since most clients see an answer only once they have sent
    everything; an upload that is larger still is cut off.
    """
    error = too_many_bytes(settings)
    cut = _PATIENCE * limit
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


class _Form(MultiPartParser):
    """The form parser, which also knows whether the closing boundary came."""

    complete = False

    def on_end(self) -> None:
        """Notes the closing boundary."""
        self.complete = True
