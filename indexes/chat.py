"""A client of any OpenAI-compatible server (vLLM, `transformers serve`, ...): chat completions, whole or streamed."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import random
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

import httpx
from PIL import Image

logger = logging.getLogger(__name__)

Message = dict[str, Any]
"""One message as the OpenAI API takes it: {"role": ..., "content": text or a list of content parts}."""

MAX_WAIT = 60.0
"""Seconds that a wait between two tries never exceeds, whatever Retry-After says."""


class ChatError(OSError):
    """A chat server did not answer as it should. `status` is the HTTP status, `None` when there was no response."""

    def __init__(self, message: str, url: str, status: int | None = None) -> None:
        super().__init__(f"{url}: {message}")
        self.url, self.status = url, status


class ChatClient:
    """Asks a chat model, within one event loop.

    A failed connection, 429 and 5xx are tried again, after what Retry-After says or else with a growing pause.

    Args:
        base_url: Where the API begins, with or without "/v1" at its end.
        model: Name of the model in requests.
        api_key: Sent as a bearer token when given.
        timeout: Seconds that a server may stay silent.
        retries: Further tries after the first.
        concurrency: Requests under way at once; further ones wait.
        backoff: Seconds before the first further try; doubled each time, with some jitter.

    Raises:
        ValueError: If a setting is out of range.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        timeout: float = 60,
        retries: int = 3,
        concurrency: int = 8,
        backoff: float = 0.5,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
        if retries < 0 or concurrency < 1 or timeout <= 0 or backoff < 0:
            raise ValueError(
                f"a chat client needs retries >= 0, concurrency >= 1, timeout > 0, backoff >= 0; "
                f"got {retries=}, {concurrency=}, {timeout=}, {backoff=}"
            )
        base = base_url.rstrip("/")
        self.url = f"{base if base.endswith('/v1') else base + '/v1'}/chat/completions"
        self.model, self.retries, self.backoff = model, retries, backoff
        self._slots = asyncio.Semaphore(concurrency)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(
            headers=headers, timeout=timeout, limits=httpx.Limits(max_connections=concurrency)
        )

    async def complete(self, messages: Sequence[Message], max_tokens: int, temperature: float = 0.0) -> str:
        """Returns the model's answer to `messages`.

        Raises:
            ChatError: If the server cannot be reached, refuses, or sends something else than a chat completion.
        """
        async with self._slots, self._open(messages, max_tokens, temperature, stream=False) as response:
            body = await self._body(response)
        try:
            content = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError) as error:
            raise ChatError(f"not a chat completion: {_short(body)}", self.url, response.status_code) from error
        if not isinstance(content, str):
            raise ChatError(f"the answer has no text: {_short(body)}", self.url, response.status_code)
        return content

    async def stream(
        self, messages: Sequence[Message], max_tokens: int, temperature: float = 0.0
    ) -> AsyncIterator[str]:
        """Yields the answer piece by piece. Only the opening of a stream is tried again.

        Raises:
            ChatError: As `complete`, and if the stream breaks off.
        """
        async with self._slots, self._open(messages, max_tokens, temperature, stream=True) as response:
            try:
                async for line in response.aiter_lines():
                    if not line.startswith("data:"):
                        continue
                    data = line[5:].strip()
                    if data == "[DONE]":
                        return
                    if piece := self._piece(data, response.status_code):
                        yield piece
            except httpx.HTTPError as error:
                raise ChatError(f"the stream broke off: {_reason(error)}", self.url, response.status_code) from error

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> ChatClient:
        """Returns itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self.aclose()

    def _piece(self, data: str, status: int) -> str:
        try:
            event = json.loads(data)
            if "error" in event:
                raise ChatError(f"the server reports {_short(str(event['error']))}", self.url, status)
            choices = event["choices"]
            piece = choices[0]["delta"].get("content") if choices else None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ChatError(f"not a piece of a chat completion: {_short(data)}", self.url, status) from error
        return piece or ""

    def _open(self, messages: Sequence[Message], max_tokens: int, temperature: float, stream: bool) -> _Opened:
        body = {
            "model": self.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": stream,
        }
        return _Opened(self, self._http.build_request("POST", self.url, json=body))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Returns the first good response, headers only; the body is still to be read."""
        for attempt in range(self.retries + 1):
            status, after = None, None
            try:
                response = await self._http.send(request, stream=True)
            except httpx.TransportError as error:
                failure = f"no answer: {_reason(error)}"
            else:
                if response.is_success:
                    return response
                status, after = response.status_code, response.headers.get("retry-after")
                try:
                    failure = f"status {status}: {_short((await response.aread()).decode(errors='replace'))}"
                except httpx.HTTPError as error:
                    failure = f"status {status}: {_reason(error)}"
                finally:
                    await response.aclose()
                if status != 429 and status < 500:
                    raise ChatError(failure, self.url, status)
            if attempt == self.retries:
                raise ChatError(f"{failure} (tried {attempt + 1} times)", self.url, status)
            wait = _seconds(after)
            if wait is None:
                wait = self.backoff * 2**attempt * (1 + 0.25 * random.random())
            logger.warning("%s: %s; trying again in %.1f s", self.url, failure, min(wait, MAX_WAIT))
            await asyncio.sleep(min(wait, MAX_WAIT))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _body(self, response: httpx.Response) -> str:
        try:
            return (await response.aread()).decode(errors="replace")
        except httpx.HTTPError as error:
            raise ChatError(f"the answer broke off: {_reason(error)}", self.url, response.status_code) from error


class _Opened:
    """A response while it is being read: sent on entering, closed on leaving."""

    def __init__(self, client: ChatClient, request: httpx.Request) -> None:
        self._client, self._request = client, request
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> httpx.Response:
        self._response = await self._client._send(self._request)
        return self._response

    async def __aexit__(self, *error: object) -> None:
        if self._response is not None:
            await self._response.aclose()


def image_part(image: Image.Image, max_side: int = 1024, quality: int = 90) -> Message:
    """Returns an image as a content part with a data URI (JPEG), scaled down to `max_side` pixels where larger."""
    picture = image.convert("RGB")
    picture.thumbnail((max_side, max_side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}


def text_part(text: str) -> Message:
    """Returns a text as a content part."""
    return {"type": "text", "text": text}


def _seconds(header: str | None) -> float | None:
    """Returns the seconds of a Retry-After header; `None` for a missing one or a date."""
    try:
        return max(float(header), 0.0) if header else None
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()


def _short(text: str, limit: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
