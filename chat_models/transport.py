"""The addresses of chat servers, and the bytes of their responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import httpx

from chat_models.reply_reader import ReplyReader

logger = logging.getLogger(__name__)

_GRACE_S = 0.5
"""Seconds that a stream may stay open after `[DONE]`: text that follows it must not be lost."""


async def until_end(response: httpx.Response, reader: ReplyReader) -> AsyncIterator[bytes]:
    """Yields the bytes of a response up to its end.

    After the mark of the end, some proxies keep it open, and others close it without the end that HTTP asks for.
    """
    stream = response.aiter_bytes()
    while True:
        try:
            async with asyncio.timeout(_GRACE_S if reader.marked else None):
                data = await anext(stream, None)
        except TimeoutError:
            return
        except httpx.RemoteProtocolError:
            if reader.whole:
                return
            raise
        if data is None:
            return
        yield data


def unread_encoding(response: httpx.Response) -> str:
    """Returns the encoding of a response that was not asked for and cannot be decoded, or ""."""
    names = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    asked = response.request.headers.get("accept-encoding", "").replace(" ", "").split(",")
    return next((name for name in names if name not in ("", "identity", "x-gzip", *asked)), "")


def root(base_url: str) -> httpx.URL:
    """Returns the root of the API.

    Raises:
        ValueError: `base_url` is not an HTTP URL.
    """
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is not a URL ({error}), got {base_url!r}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
    path = url.path.rstrip("/")
    if path.endswith("/chat/completions"):
        path = path.removesuffix("/chat/completions")
        logger.warning("base_url %s: /chat/completions is added to it, so it is left out", base_url)
    if not path:
        logger.info("base_url %s has no path; using /v1", base_url)
    return url.copy_with(path=path or "/v1")


def under(base: httpx.URL, path: str) -> str:
    """Returns the address of a path under the root of the API, which may have a query."""
    return str(base.copy_with(path=f"{base.path.rstrip('/')}/{path}"))


def reason(error: Exception) -> str:
    """Returns the kind and the message of an error."""
    return f"{type(error).__name__} {error}".strip()
