"""Reads the body of an HTTP request within a limit, and its JSON, or refuses it unread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from serving.errors import ApiError
from serving.settings import ServingSettings

_OVERHEAD = 64 * 1024  # bytes of a body besides the images: questions, options, boundaries
_MAX_EXCESS = 4  # a body is read up to this multiple of one image's limit

LINGER_BYTES, LINGER_S = 32 * 2**20, 2.0
"""Most bytes and seconds of a refused upload that are read and thrown away."""


def content_type_of(request: Request) -> str:
    """Returns the content type of a request without its parameters, "" if it has none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def declared_length(scope: Scope) -> int:
    """Returns the bytes of the body that a request's headers declare, -1 if they do not."""
    declared = Headers(scope=scope).get("content-length", "")
    return int(declared) if declared.isdecimal() else -1


def body_limit(settings: ServingSettings, images: int = 1) -> int:
    """Returns the most bytes that a body with `images` images may have."""
    return images * settings.max_image_bytes * 3 // 2 + _OVERHEAD  # they may be base64, with line breaks


async def read_body(
    request: Request, settings: ServingSettings, error: ApiError, images: int = 1
) -> AsyncGenerator[bytes, None]:
    """Yields the body's chunks up to the limit.

    Most clients read the response only after they have sent everything, so the rest is read and thrown away, up to
    `_MAX_EXCESS` times the limit of one image; a larger upload is cut off.

    Args:
        request: The request.
        settings: `max_image_bytes` is read.
        error: Raised over the limit.
        images: Number of images that the body may have.

    Raises:
        ApiError: `error`, or 415 for a body that is compressed.
    """
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        message = f"the body is compressed (Content-Encoding: {coding[:20]}); send it as it is"
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
    """Returns the JSON of a body; arguments as for `read_body`.

    Raises:
        ApiError: `error` over the limit, 400 if it is not JSON.
    """
    return parse_json(b"".join([chunk async for chunk in read_body(request, settings, error, images)]))


def parse_json(text: bytes | str, name: str = "the body", param: str | None = None) -> Any:
    """Parses JSON; errors call it `name`.

    Raises:
        ApiError: 400 if it is malformed.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(";")[0]  # after it, Python says how to change its limit on digits
        raise ApiError(400, "malformed_json", f"{name} is not valid JSON: {reason}", param=param) from error


async def refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with an error before the body has been read.

    What still comes of the body is then thrown away for a moment: closing a connection with unread bytes resets it,
    and the client may lose the answer. Larger uploads are cut off.
    """
    # A client that asks before it sends its body (Expect) may leave it out now, or send it nevertheless.
    if declared_length(scope) > LINGER_BYTES or "expect" in Headers(scope=scope):
        error.headers["Connection"] = "close"
    error.note(scope)
    text, left = json.dumps(error.body()).encode(), LINGER_BYTES
    headers = {"content-type": "application/json", "content-length": str(len(text)), **error.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while left > 0:
                message = await receive()
                if not message.get("more_body"):  # the end, or the client is gone
                    break
                left -= len(message["body"])
    await send({"type": "http.response.body"})
