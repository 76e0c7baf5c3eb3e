"""A client for any OpenAI-compatible server (vLLM, `transformers serve`, ...): chat completions, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, NamedTuple

import httpx

from llm.event_lines import event_lines
from llm.messages import Message, without_system_role
from llm.replies import (
    ChatReply,
    ending_of,
    error_message,
    make_reply,
    read_reply,
    reasoning_of,
    shortened,
    well_formed,
    written,
)
from llm.retries import MAX_WAIT, seconds_to_wait
from llm.thoughts import TAGS, ThoughtFilter

logger = logging.getLogger(__name__)

_COUNTED = {"include_usage": True}
_UNSTABLE = ("created", "permission")
"""What servers say anew of a model in each list of models."""
MAX_CONNECT = 10.0
"""Timeout in seconds for connecting, and for the response to a check."""


class ChatError(OSError):
    """A failed request to a chat server. `status` is the HTTP status, or `None` if there was no response."""

    def __init__(self, message: str, url: str, status: int | None = None) -> None:
        super().__init__(f"{url}: {message}")
        self.url, self.status = url, status


class _Piece(NamedTuple):
    """One event of a stream."""

    text: str = ""
    thoughts: str = ""
    refusal: str = ""
    reason: str | None = None
    usage: object = None


class ChatClient:
    """A client for one chat model, for use within one event loop.

    Failed connections and statuses 429 and 5xx are retried after the time in Retry-After, or with exponential backoff.

    Args:
        base_url: The root of the API, with or without a trailing "/v1".
        model: The model's name in requests.
        api_key: Sent as a bearer token if given.
        timeout: Maximum silence of the server, in seconds.
        retries: Maximum number of retries.
        concurrency: Maximum number of concurrent requests; further ones wait.
        backoff: Seconds before the first retry; doubled for each further one, with some jitter.
        system_role: False moves the system message into the first user message, for models whose chat template rejects
            a system role.
        reasoning_effort: Sent if given; "none" turns off the reasoning of a thinking model if the server supports it.

    Raises:
        ValueError: A setting is out of range.
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
        system_role: bool = True,
        reasoning_effort: str = "",
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
        if retries < 0 or concurrency < 1 or timeout <= 0 or backoff < 0:
            raise ValueError(
                f"a chat client needs retries >= 0, concurrency >= 1, timeout > 0, backoff >= 0; "
                f"got {retries=}, {concurrency=}, {timeout=}, {backoff=}"
            )
        base = base_url.rstrip("/")
        self._base = base if base.endswith("/v1") else f"{base}/v1"
        self.url = f"{self._base}/chat/completions"
        self.model, self.retries, self.backoff, self.system_role = model, retries, backoff, system_role
        self.reasoning_effort = reasoning_effort
        self.concurrency = concurrency
        self._counts_streams = True
        self._begins_thoughts: bool | None = None
        """Whether the prompt begins a thought; `None` until a reply has shown it."""
        self._slots = asyncio.Semaphore(concurrency)
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx.Timeout(timeout, connect=min(timeout, MAX_CONNECT)),
            limits=httpx.Limits(max_connections=concurrency),
        )

    async def converse(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        temperature: float = 0.0,
        tags: Sequence[str] = TAGS,
        **fields: Any,
    ) -> ChatReply:
        """Requests the model's reply to a conversation.

        Args:
            messages: The conversation.
            max_tokens: Maximum length of the reply with its thoughts, in tokens.
            temperature: 0 is greedy decoding.
            tags: The tags of thoughts in the reply.
            fields: Further fields of the request, such as `tools`, `response_format` or `stop`.

        Raises:
            ChatError: The server cannot be reached, refuses the request, or does not send a chat completion.
        """
        async with self._opened(messages, max_tokens, temperature, stream=False, **fields) as response:
            try:
                reply = read_reply(json.loads(response.text), tags, bool(self._begins_thoughts))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                message = f"not a chat completion: {shortened(response.text)}"
                raise ChatError(message, self.url, response.status_code) from error
        self._learn(reply)
        return reply

    async def stream(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        temperature: float = 0.0,
        tags: Sequence[str] = TAGS,
        **fields: Any,
    ) -> AsyncIterator[str | ChatReply]:
        """Yields the text of a reply piece by piece, without thoughts, then the whole reply.

        Only opening the stream is retried. The client's first reply is held back until its end, which shows whether
        the prompt begins a thought. If the server rejects the option that asks for token counts (`stream_options`), it
        is not sent again.

        Args:
            messages: The conversation.
            max_tokens: Maximum length of the reply with its thoughts, in tokens.
            temperature: 0 is greedy decoding.
            tags: The tags of thoughts in the reply.
            fields: Further fields of the request.

        Raises:
            ChatError: As for `converse`, or the stream breaks off.
        """
        pieces, thoughts = ThoughtFilter(tags, self._begins_thoughts), ""
        usage: object = None
        refusal, reason = "", None
        async with self._streamed(messages, max_tokens, temperature, **fields) as response:
            finished = False
            try:
                async for line in event_lines(response.aiter_bytes()):
                    if line.startswith("error:"):  # sent by llama.cpp's server, before data: {"error": ...}
                        raise self._reported(line[6:].strip(), response.status_code)
                    if not line.startswith("data:"):
                        continue
                    data = line[5:].strip()
                    if data == "[DONE]":
                        finished = True
                        break
                    piece = self._piece(data, response.status_code)
                    usage, reason = piece.usage or usage, piece.reason or reason
                    thoughts, refusal = thoughts + piece.thoughts, refusal + piece.refusal
                    if piece.thoughts and not pieces.whole:  # the server itself keeps thoughts apart
                        pieces = ThoughtFilter(tags)
                    # Some servers omit the final [DONE], but none omits the finish reason.
                    finished = finished or reason is not None
                    if piece.text and (text := pieces.feed(piece.text)):
                        yield text
            except httpx.HTTPError as error:
                raise ChatError(f"the stream broke off: {_reason(error)}", self.url, response.status_code) from error
        if not finished:
            raise ChatError("the stream ended before the answer was complete", self.url, response.status_code)
        opened = bool(self._begins_thoughts)
        reply = make_reply(pieces.whole, thoughts, ending_of(reason, refusal), usage, tags, opened, refusal=refusal)
        self._learn(reply)
        if rest := pieces.close(reply.text):
            yield rest
        yield reply

    async def reported(self) -> list[dict[str, Any]] | None:
        """Returns what the server says of its models, without times, which vLLM makes up; `None` if it says nothing.

        Raises:
            ChatError: The server cannot be reached.
        """
        url = f"{self._base}/models"
        try:
            models = (await self._http.get(url, timeout=MAX_CONNECT)).json()["data"]
            return [{key: model[key] for key in sorted(model) if key not in _UNSTABLE} for model in models]
        except httpx.RequestError as error:
            raise ChatError(f"no answer: {_reason(error)}", url) from error
        except (ValueError, LookupError, TypeError):
            return None

    async def check(self) -> str:
        """Checks with one request that the server offers the model, and returns a sentence about it.

        Raises:
            ChatError: The server cannot be reached, refuses the request, or does not offer the model.
        """
        url = f"{self._base}/models"
        try:
            response = await self._http.get(url, timeout=MAX_CONNECT)
        except httpx.RequestError as error:
            raise ChatError(f"no answer: {_reason(error)}", url) from error
        if not response.is_success:
            raise ChatError(f"status {response.status_code}: {error_message(response.text)}", url, response.status_code)
        try:
            names = [str(model["id"]) for model in response.json()["data"] or ()]  # null if Ollama has no model
        except (ValueError, LookupError, TypeError) as error:
            raise ChatError(f"not a list of models: {shortened(response.text)}", url, response.status_code) from error
        if names and not {self.model, f"{self.model}:latest"} & set(names):  # Ollama adds the tag to a bare name
            raise ChatError(f"offers {', '.join(names)}, not {self.model!r}", url, response.status_code)
        return f"{url} offers {self.model}" if names else f"{url} responds but lists no models"

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> ChatClient:
        """Returns the client, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self.aclose()

    def _reported(self, data: str, status: int) -> ChatError:
        return ChatError(f"the server reports {error_message(data)}", self.url, status)

    def _learn(self, reply: ChatReply) -> None:
        """Notes whether the prompt begins a thought, of which the reply then has only the end."""
        if reply.opened:
            self._begins_thoughts = True
        elif self._begins_thoughts is None and reply.text and not reply.cut:
            self._begins_thoughts = False

    @asynccontextmanager
    async def _streamed(
        self, messages: Sequence[Message], max_tokens: int, temperature: float, **fields: Any
    ) -> AsyncIterator[httpx.Response]:
        """Yields an open stream that reports token counts at the end if the server supports it."""
        async with AsyncExitStack() as stack:
            response, refused = None, False
            if self._counts_streams:
                counting = {**fields, "stream_options": _COUNTED}
                opened = self._opened(messages, max_tokens, temperature, stream=True, **counting)
                try:
                    response = await stack.enter_async_context(opened)
                except ChatError as error:
                    if error.status not in (400, 422):
                        raise
                    refused = True
            if response is None:
                opened = self._opened(messages, max_tokens, temperature, stream=True, **fields)
                response = await stack.enter_async_context(opened)
                if refused:  # without the option, the same request succeeded
                    self._counts_streams = False
            yield response

    def _piece(self, data: str, status: int) -> _Piece:
        """Parses one event of a stream."""
        try:
            event = json.loads(data)
            if "error" in event:
                raise self._reported(data, status)
            if not event["choices"]:  # the event with the usage
                return _Piece(usage=event.get("usage"))
            choice = event["choices"][0]
            delta = choice["delta"]
            return _Piece(
                well_formed(written(delta.get("content"))),
                reasoning_of(delta),
                delta.get("refusal") or "",
                choice.get("finish_reason"),
                event.get("usage"),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ChatError(f"not a piece of a chat completion: {shortened(data)}", self.url, status) from error

    @asynccontextmanager
    async def _opened(
        self, messages: Sequence[Message], max_tokens: int, temperature: float, *, stream: bool, **fields: Any
    ) -> AsyncIterator[httpx.Response]:
        """Yields a successful response, with its body unread if `stream` is true, and closes it."""
        body = {
            "model": self.model,
            "messages": list(messages) if self.system_role else without_system_role(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": stream,
            **fields,
        }
        if self.reasoning_effort:
            body["reasoning_effort"] = self.reasoning_effort
        async with self._slots:
            response = await self._send(self._http.build_request("POST", self.url, json=body), stream)
            try:
                yield response
            finally:
                await response.aclose()

    async def _send(self, request: httpx.Request, stream: bool) -> httpx.Response:
        for attempt in range(self.retries + 1):
            status, after = None, None
            try:
                response = await self._http.send(request, stream=stream)
            except httpx.RequestError as error:
                failure = f"no answer: {_reason(error)}"
            else:
                if response.is_success:
                    return response
                status, after = response.status_code, response.headers.get("retry-after")
                try:
                    failure = f"status {status}: {error_message((await response.aread()).decode(errors='replace'))}"
                except httpx.HTTPError as error:
                    failure = f"status {status}: {_reason(error)}"
                finally:
                    await response.aclose()
                if status != 429 and status < 500:
                    raise ChatError(failure, self.url, status)
            if attempt == self.retries:
                raise ChatError(f"{failure} (attempts: {attempt + 1})", self.url, status)
            wait = min(seconds_to_wait(after, attempt, self.backoff), MAX_WAIT)
            logger.warning("%s: %s; trying again in %.1f s", self.url, failure, wait)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last try returns or raises")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
