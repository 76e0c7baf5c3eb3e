"""A client for any OpenAI-compatible server (vLLM, `transformers serve`, ...): chat completions, whole or streamed."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

import httpx

from chat_models.deadlines import seconds_left
from chat_models.errors import ChatError
from chat_models.messages import Message, without_system_role
from chat_models.proxies import http_client, through_proxy
from chat_models.refusals import CHANGED, OMITTED, is_loading, refused_field, without_fields
from chat_models.replies import ChatReply, error_field, error_message, read_reply, shortened
from chat_models.reply_reader import ReplyError, ReplyReader
from chat_models.retries import MAX_WAIT, PASSING, asked_wait, seconds_to_wait
from chat_models.secrets import HiddenStream, hidden, keep_secret
from chat_models.thoughts import TAGS, ThoughtFilter
from chat_models.transport import reason, root, under, unread_encoding, until_end

logger = logging.getLogger(__name__)

_UNSTABLE = ("created", "permission")
"""What servers say anew of a model in each list of models."""
_REWRITTEN = {
    "messages": "turns of user and assistant",
    "turns": "turns with OpenAI's own fields",
    "content": "turns with a text",
}
"""Forms of a conversation that servers refuse, and what they get instead."""
KEY = "OPENAI_API_KEY"
"""The environment variable with the key of chat servers."""
MAX_CONNECT = 10.0
"""Timeout in seconds for connecting, and for the response to a check."""


class ChatClient:
    """A client for one chat model, for use within one event loop.

    Failed connections and statuses 429 and 5xx are retried after the time in Retry-After, or with exponential backoff.
    A request that was not answered in time is not: the server may be working on it. Within a block of
    `chat_models.retries.within`, a silent server is waited for until the deadline, and no retry is awaited beyond it.

    Fields that the server refuses, such as `max_tokens`, are sent under their other name or not at all from then on.
    For a chat template that refuses roles, messages become turns of user and assistant.

    Args:
        base_url: The root of the API, such as "http://127.0.0.1:8001/v1"; "/v1" is added to a bare host.
        model: The model's name in requests.
        api_key: Sent as a bearer token if given.
        timeout: Maximum silence of the server, in seconds.
        retries: Maximum number of retries.
        concurrency: Maximum number of concurrent requests; further ones wait.
        backoff: Seconds before the first retry; doubled for each further one, with some jitter.
        system_role: False moves the system message into the first user message, for models whose chat template rejects
            a system role.
        reasoning_effort: Sent if given; "none" turns off the reasoning of a thinking model if the server supports it.
        setting: The name of `timeout` in messages.
        omit: Fields that the server is known to refuse, see `chat_models.refusals.OMITTED`.

    Raises:
        ValueError: A setting is out of range, or a proxy variable of the environment is unusable.
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
        setting: str = "timeout",
        omit: Collection[str] = (),
    ) -> None:
        if retries < 0 or concurrency < 1 or timeout <= 0 or backoff < 0:
            raise ValueError(
                f"a chat client needs retries >= 0, concurrency >= 1, timeout > 0, backoff >= 0; "
                f"got {retries=}, {concurrency=}, {timeout=}, {backoff=}"
            )
        if unknown := sorted({*omit} - {*OMITTED}):
            raise ValueError(f"omit must name fields among {', '.join(OMITTED)}; got {unknown[0]!r}")
        self._base = root(base_url)
        keep_secret(api_key, url=str(self._base))
        self._place = under(self._base, "chat/completions")
        self.url = hidden(self._place)
        self.model, self.retries, self.backoff, self.system_role = model, retries, backoff, system_role
        self.reasoning_effort = reasoning_effort
        self.concurrency = concurrency
        self._timeout, self._setting = timeout, setting
        self._refused = frozenset(omit)
        """Fields that the server has refused: see `chat_models.refusals`."""
        self._counts: bool | None = None
        """Whether the server has taken the option that asks for token counts; `None` before the first reply."""
        self._begins_thoughts: bool | None = None
        """Whether the prompt begins a thought; `None` until a reply has shown it."""
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._open()

    def _open(self) -> None:
        limits = httpx.Limits(max_connections=self.concurrency)
        self._process = os.getpid()
        self._slots = asyncio.Semaphore(self.concurrency)
        self._http = http_client(self._base, headers=self._headers, limits=limits)

    def _reopen(self) -> None:
        """Opens other connections in a forked process: its parent's are still in use there."""
        if self._process != os.getpid():
            self._open()

    async def converse(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        temperature: float = 0.0,
        tags: Sequence[str] = TAGS,
        **fields: Any,
    ) -> ChatReply:
        """Requests the model's reply to a conversation. It is streamed, so that work differs from silence.

        Args:
            messages: The conversation.
            max_tokens: Maximum length of the reply with its thoughts, in tokens.
            temperature: 0 is greedy decoding.
            tags: The tags of thoughts in the reply.
            fields: Further fields of the request, such as `tools`, `response_format` or `stop`.

        Raises:
            ChatError: The server cannot be reached, refuses the request, or does not send a complete reply.
        """
        body = self._body(messages, max_tokens, temperature, fields)
        *_, reply = [piece async for piece in self._replies(body, tags, whole=True)]
        assert isinstance(reply, ChatReply)
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

        A failure is retried until the first piece. The client's first reply is held back until its end, which shows
        whether the prompt begins a thought.

        Args:
            messages: The conversation.
            max_tokens: Maximum length of the reply with its thoughts, in tokens.
            temperature: 0 is greedy decoding.
            tags: The tags of thoughts in the reply.
            fields: Further fields of the request.

        Raises:
            ChatError: As for `converse`.
        """
        body = self._body(messages, max_tokens, temperature, fields)
        async with aclosing(self._replies(body, tags, whole=False)) as pieces:
            async for piece in pieces:
                yield piece

    async def reported(self) -> list[dict[str, Any]] | None:
        """Returns the server's list of its models, or `None` if it has none.

        Times are left out, because vLLM sends the current time.

        Raises:
            ChatError: The server cannot be reached.
        """
        self._reopen()
        url = under(self._base, "models")
        try:
            models = (await self._http.get(url, timeout=MAX_CONNECT)).json()["data"]
            return hidden([{key: model[key] for key in sorted(model) if key not in _UNSTABLE} for model in models])
        except httpx.RequestError as error:
            raise _error(f"no answer: {reason(error)}{through_proxy(url)}", url) from error
        except (ValueError, LookupError, TypeError):
            return None

    async def check(self) -> str:
        """Checks with one request that the server offers the model, and returns a sentence about it.

        Raises:
            ChatError: The server cannot be reached, refuses the request, or does not offer the model.
        """
        self._reopen()
        url = under(self._base, "models")
        try:
            response = await self._http.get(url, timeout=MAX_CONNECT)
        except httpx.RequestError as error:
            raise _error(f"no answer: {reason(error)}{through_proxy(url)}", url) from error
        if not response.is_success:
            refusal = await self._refusal(response)
            raise _error(refusal.message, url, response.status_code)
        try:
            names = [str(model["id"]) for model in response.json()["data"] or ()]  # null if Ollama has no model
        except (ValueError, LookupError, TypeError) as error:
            raise _error(f"not a list of models: {shortened(response.text)}", url, response.status_code) from error
        if names and not {self.model, f"{self.model}:latest"} & set(names):  # Ollama adds the tag to a bare name
            raise _error(f"offers {', '.join(names)}, not {self.model!r}", url, response.status_code)
        return f"{hidden(url)} offers {self.model}" if names else f"{hidden(url)} responds but lists no models"

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

    def _body(
        self, messages: Sequence[Message], max_tokens: int, temperature: float, fields: dict[str, Any]
    ) -> dict[str, Any]:
        effort = {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {
            "model": self.model,
            "messages": list(messages) if self.system_role else without_system_role(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **fields,
            **effort,
        }

    async def _replies(self, body: dict[str, Any], tags: Sequence[str], whole: bool) -> AsyncGenerator[str | ChatReply]:
        """Yields the reply; sends the request again after failures, and without what the server refuses."""
        refused = set(self._refused)
        attempt, begun, start = 0, False, time.monotonic()
        while True:
            sent = without_fields(body, refused)
            try:
                async with aclosing(self._sent(sent, tags, whole)) as pieces:
                    async for piece in pieces:
                        begun = True
                        if isinstance(piece, ChatReply):
                            self._learn(piece, refused)
                        yield piece
                return
            except ChatError as error:
                if begun:
                    raise
                unproven = self._counts is None
                fault = refused_field(error.message, error.param, error.status, sent, unproven)
                if fault is not None:
                    refused.add(fault)
                    continue
                wait = self._wait(error, attempt, time.monotonic() - start)
            attempt += 1
            await asyncio.sleep(wait)

    async def _sent(self, body: dict[str, Any], tags: Sequence[str], whole: bool) -> AsyncGenerator[str | ChatReply]:
        """Sends a request once; yields the reply, in pieces unless `whole`.

        Raises:
            ChatError: The request or its reply failed.
        """
        self._reopen()
        patience = max(self._timeout, seconds_left() or 0)
        limits = httpx.Timeout(patience, connect=min(self._timeout, MAX_CONNECT), pool=None)
        async with self._slots:
            try:
                request = self._http.build_request("POST", self._place, json=body, timeout=limits)
                response = await self._http.send(request, stream=True)
                try:
                    if not response.is_success:
                        raise await self._refusal(response)
                    async for piece in self._read(response, tags, whole):
                        yield piece
                finally:
                    await response.aclose()
            except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
                message = f"no reply within {patience:g} s; if the model is only slow, raise {self._setting}"
                raise _error(message, self.url, timed_out=True) from error
            except httpx.HTTPError as error:
                raise _error(f"no answer: {reason(error)}{through_proxy(self._place)}", self.url) from error

    async def _read(
        self, response: httpx.Response, tags: Sequence[str], whole: bool
    ) -> AsyncGenerator[str | ChatReply]:
        reader, pieces, shown = ReplyReader(), ThoughtFilter(tags, self._begins_thoughts), HiddenStream()
        if encoding := unread_encoding(response):
            message = f"the reply is in the encoding {encoding}, which was not asked for"
            raise _error(message, self.url, response.status_code)
        try:
            async for data in until_end(response, reader):
                for text in reader.feed(data):
                    if reader.reasoned and not pieces.whole:  # the server itself keeps thoughts apart
                        pieces = ThoughtFilter(tags)
                    if not whole and (ready := shown.feed(pieces.feed(text))):
                        yield ready
            completion, rest = reader.close()
            reply = read_reply(completion, tags, bool(self._begins_thoughts))
        except ReplyError as error:
            status = error.status or response.status_code
            raise _error(str(error), self.url, status, incomplete=error.incomplete) from error
        except (LookupError, TypeError, AttributeError) as error:
            raise _error(f"not a chat completion ({error})", self.url, response.status_code) from error
        for text in rest:
            pieces.feed(text)
        if not whole and (left := shown.close(pieces.close(reply.text))):
            yield left
        safe = hidden(completion)
        yield reply if safe == completion else read_reply(safe, tags, bool(self._begins_thoughts))

    async def _refusal(self, response: httpx.Response) -> ChatError:
        """Returns the error of a response without success."""
        status, headers = response.status_code, response.headers
        try:
            await response.aread()
            body, said = response.text, error_message(response.text)
        except httpx.HTTPError as error:  # the status counts, even if the rest cannot be read
            body, said = "", f"{response.reason_phrase} (its text cannot be read: {error})"
        message = f"status {status}: {said or response.reason_phrase}"
        if encoding := unread_encoding(response):
            message = f"status {status}: {response.reason_phrase} (its text is in the encoding {encoding})"
        if response.is_redirect:
            place = response.url.join(headers["location"]) if "location" in headers else "no address"
            message = f"status {status}: redirects to {place}; set base_url accordingly"
        elif status == 401:
            sent = "was sent" if "Authorization" in self._headers else "is not set"
            message += f"; the key is that of the environment variable {KEY}, which {sent}"
        elif status in (407, 502, 503, 504):
            message += through_proxy(self._place)
        elif status in (404, 405) and not self._base.path.rstrip("/").endswith("/v1"):
            message += "; base_url is used as it is: does it lack /v1?"
        return _error(message, self.url, status, wait=asked_wait(headers), param=error_field(body))

    def _wait(self, error: ChatError, attempt: int, waited: float) -> float:
        """Returns the seconds until a request may be sent again; a server that loads is tried until time is up.

        Raises:
            ChatError: `error`, if it must not.
        """
        status = error.status
        final = error.timed_out or error.too_long or error.unsupported
        if final or (status is not None and status not in PASSING and status < 500):
            raise error
        left = seconds_left()
        loads = is_loading(error.message, status, error.wait) and (left is not None or waited < self._timeout)
        if attempt >= self.retries and not (loads and self.retries):
            message = f"{error.message} (attempts: {attempt + 1})" if attempt else error.message
            raise ChatError(message, self.url, status, wait=error.wait) from error
        wait = seconds_to_wait(None, min(attempt, 4), self.backoff) if error.wait is None else error.wait
        if left is not None and wait >= left:
            asked = f"; the server asks to wait {wait:g} s" if error.wait is not None else ""
            message = f"{error.message}{asked}, and only {left:.0f} s are left"
            raise ChatError(message, self.url, status, wait=error.wait) from error
        wait = min(wait, MAX_WAIT)
        logger.warning("%s: %s; trying again in %.1f s", self.url, error.message, wait)
        return wait

    def _learn(self, reply: ChatReply, refused: set[str]) -> None:
        """Notes what a reply shows: fields that must not be sent, and whether the prompt begins a thought.

        If it does, replies have only the end of the thought.
        """
        self._counts = "stream_options" not in refused
        if new := sorted(refused - self._refused - {"stream_options"}):
            for name in new:
                if name in _REWRITTEN:
                    logger.warning("%s takes only %s and gets them from now on", self.model, _REWRITTEN[name])
                    continue
                instead = f"with {CHANGED[name]}" if CHANGED.get(name) else "without"
                logger.warning("%s takes no %s and is asked %s from now on", self.model, name, instead)
        self._refused = frozenset(refused)
        if reply.opened:
            self._begins_thoughts = True
        elif self._begins_thoughts is None and reply.text and not reply.cut:
            self._begins_thoughts = False


def _error(message: str, url: str, status: int | None = None, **details: Any) -> ChatError:
    """Returns the error of a request, without the keys that a server may repeat."""
    return ChatError(hidden(message), hidden(url), status, **hidden(details))
