"""Reads the body of an HTTP request, raw or as JSON, up to a limit, or refuses the request without reading it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope, Send

from retriever.strict_json import unique_keys
from serving.errors import ApiError
from serving.settings import ServingSettings

_OVERHEAD = 64 * 1024  # bytes of a body besides its images: questions, options, boundaries
_MAX_EXCESS = 4  # an oversized body is still read up to this multiple of the limit for one image

LINGER_BYTES, LINGER_S = 32 * 2**20, 2.0
"""Maximum bytes and seconds of a refused upload that are read and discarded."""


def content_type_of(request: Request) -> str:
    """Returns the content type of a request without parameters, or "" if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def declared_length(scope: Scope) -> int:
    """Returns the length of the body in bytes that the headers declare, or -1 if they declare none."""
    declared = Headers(scope=scope).get("content-length", "")
    return int(declared) if declared.isdecimal() else -1


def body_limit(settings: ServingSettings, images: int = 1) -> int:
    """Returns the maximum size in bytes of a body with `images` images."""
    return images * settings.max_image_bytes * 3 // 2 + _OVERHEAD  # images may be base64 with line breaks


async def read_body(
    request: Request, settings: ServingSettings, error: ApiError, images: int = 1
) -> AsyncGenerator[bytes, None]:
    """Yields the chunks of the body, up to the limit.

    Most clients read the response only after sending everything, so the rest of an oversized body is read and
    discarded, up to `_MAX_EXCESS` times the limit for one image; a larger upload is cut off.

    Args:
        request: The request.
        settings: Uses `max_image_bytes`.
        error: Raised if the body exceeds the limit.
        images: Maximum number of images in the body.

    Raises:
        ApiError: `error`, or 415 if the body is compressed.
    """
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        message = f"the body is compressed (Content-Encoding: {coding[:20]}); send it uncompressed"
        raise ApiError(415, "unsupported_media_type", message, headers={"Accept-Encoding": "identity"})
    limit = body_limit(settings, images)
    cut = max(limit, _MAX_EXCESS * body_limit(settings))
    seen = 0
    if declared_length(request.scope) <= cut:
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


async def read_json(request: Request, settings: ServingSettings, error: ApiError, images: int = 1) -> Any:
    """Reads and parses a JSON body; takes the arguments of `read_body`.

    Raises:
        ApiError: As from `read_body`, and 400 if the body is not JSON.
    """
    return parse_json(b"".join([chunk async for chunk in read_body(request, settings, error, images)]))


def parse_json(text: bytes | str, name: str = "the body", param: str | None = None) -> Any:
    """Parses JSON; error messages refer to it as `name`.

    Raises:
        ApiError: 400 if it is malformed, or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]  # the rest is Python's advice on changing its limit on digits
        raise ApiError(400, "malformed_json", f"{name} is not valid JSON: {reason}", param=param) from error


async def refuse(error: ApiError, scope: Scope, send: Send) -> None:
    """Answers with an error before the body has been read; `serving.protocol` then discards it as it arrives.

    Larger uploads are cut off.
    """
    # A client that sent `Expect: 100-continue` may now omit its body, or send it anyway.
    if declared_length(scope) > LINGER_BYTES or "expect" in Headers(scope=scope):
        error.headers["Connection"] = "close"
    error.note(scope)
    headers, text = error.raw()
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
