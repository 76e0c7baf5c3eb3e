"""Clients of a running service: `Client`, and `AsyncClient` for asyncio and Trio."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

import httpx
from anyio import sleep, to_thread

from chat_models.proxies import http_client, sync_http_client
from omgm.search_params import Images
from omgm.wire import (
    MAX_CONNECT,
    AgentStep,
    AnswerParams,
    BudgetParams,
    EventReader,
    Model,
    RetrieveParams,
    ServiceError,
    article_form,
    entity_path,
    failure,
    form,
    parsed,
    unreachable,
    wait_of,
)
from retriever.images import ImageInput
from serving.schemas import AnswerOut, ChangeOut, RetrieveOut

__all__ = [
    "AgentStep",
    "AnswerOut",
    "AnswerParams",
    "AsyncClient",
    "BudgetParams",
    "ChangeOut",
    "Client",
    "RetrieveOut",
    "RetrieveParams",
    "ServiceError",
]


class Client:
    """A client of a running service; thread-safe.

    An image is a path, the bytes of a file, a PIL image or an array, as for `OMGM.ask`, a data URI or a URL, which the
    service fetches if its host is allowed. A question has one, a list of several, or `None`. Statuses 429 and 503 are
    retried after the service's Retry-After.

    Args:
        url: The service's URL.
        api_key: A key of the service, if it needs one.
        timeout: Maximum silence of the service, in seconds.
        retries: Maximum number of retries while the service is busy or not ready.

    Raises:
        ValueError: `timeout` or `retries` is out of range, the key is none, or a proxy variable of the environment is
            unusable.

    Example:
        >>> from omgm.client import Client
        >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
        ...     client.answer("photo.jpg", "Who built this?").answer
        'Gustave Eiffel'
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 60,
        retries: int = 2,
    ) -> None:
        self._retries = retries
        self._http = sync_http_client(url, **_settings(url, api_key, timeout, retries))

    def answer(self, image: Images, question: str, **options: Unpack[AnswerParams]) -> AnswerOut:
        """Answers a question. With a `mode`, that agent answers, which may take minutes.

        Raises:
            ServiceError: The service refuses the request, fails or cannot be reached.
            OSError: The image file cannot be read.
        """
        if "mode" in options:  # streamed, because the service then sends keep-alives
            *_, last = self.stream(image, question, **options)
            return _whole(last)
        return self._asked(AnswerOut, "/answer", form(image, question, options))

    def retrieve(self, image: Images, question: str, **options: Unpack[RetrieveParams]) -> RetrieveOut:
        """Retrieves evidence and candidates, without an answer; raises as `answer`."""
        return self._asked(RetrieveOut, "/retrieve", form(image, question, options))

    def stream(
        self, image: Images, question: str, **options: Unpack[AnswerParams]
    ) -> Iterator[RetrieveOut | str | AgentStep | AnswerOut]:
        """Yields the retrieval result, pieces of the answer's text, then the whole answer; raises as `answer`.

        With a `mode`, it yields the agent's steps, then the whole answer; closing the iterator ends the run.
        If the generator fails, even after its first pieces, the whole answer has `answer=None` and `generator_error`.
        """
        with self._sent("/answer", form(image, question, options, stream=True)) as response:
            events = EventReader(response)
            for data in response.iter_bytes():
                yield from events.feed(data)
            events.close()

    def put_entity(self, entity_id: str, article: Mapping[str, Any], image: ImageInput | None = None) -> ChangeOut:
        """Adds or replaces an article in the index; needs a write key if the service has keys.

        When this returns, the article is on the service's disk and visible to every later search.

        Args:
            entity_id: The entity's id.
            article: `title`, `sections` (each with `title` and `text`), `url`, `image`, `images`, as in a line of a
                JSON lines knowledge base. If `image` is a URL, the service fetches it if its host is allowed.
            image: The main image, instead of a URL.

        Raises:
            ServiceError: The service refuses the request, fails or cannot be reached.
            OSError: The image file cannot be read.
        """
        return self._asked(ChangeOut, entity_path(entity_id), article_form(article, image), "PUT")

    def delete_entity(self, entity_id: str) -> ChangeOut:
        """Removes an entity from the index; needs a write key if the service has keys.

        Raises:
            ServiceError: The service has no such entity, refuses the request, fails or cannot be reached.
        """
        return self._asked(ChangeOut, entity_path(entity_id), {}, "DELETE")

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        """Returns the client, which is closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the connections."""
        self.close()

    def _asked(self, model: type[Model], path: str, content: dict[str, Any], method: str = "POST") -> Model:
        with self._sent(path, content, method) as response:
            response.read()
        return parsed(model, response)

    @contextmanager
    def _sent(self, path: str, content: dict[str, Any], method: str = "POST") -> Iterator[httpx.Response]:
        """Yields the response of success, its body unread."""
        for attempt in range(self._retries + 1):
            try:
                with self._http.stream(method, path, **content) as response:
                    if response.is_success:
                        yield response
                        return
                    response.read()
            except httpx.HTTPError as error:
                raise unreachable(str(self._http.base_url), error) from error
            wait = wait_of(response, attempt)
            if wait is None or attempt == self._retries:
                raise failure(response)
            time.sleep(wait)


class AsyncClient:
    """A client that does not block the event loop (asyncio or Trio); otherwise the same as `Client`.

    Args:
        url: As for `Client`.
        api_key: As for `Client`.
        timeout: As for `Client`.
        retries: As for `Client`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 60,
        retries: int = 2,
    ) -> None:
        self._retries = retries
        self._http = http_client(url, **_settings(url, api_key, timeout, retries))

    async def answer(self, image: Images, question: str, **options: Unpack[AnswerParams]) -> AnswerOut:
        """Answers a question about an image; see `Client.answer`. Cancellation ends an agent's run."""
        if "mode" in options:
            return _whole([event async for event in self.stream(image, question, **options)][-1])
        return await self._asked(AnswerOut, "/answer", await to_thread.run_sync(form, image, question, options))

    async def retrieve(self, image: Images, question: str, **options: Unpack[RetrieveParams]) -> RetrieveOut:
        """Retrieves evidence and candidates, without an answer; raises as `Client.answer`."""
        return await self._asked(RetrieveOut, "/retrieve", await to_thread.run_sync(form, image, question, options))

    async def stream(
        self, image: Images, question: str, **options: Unpack[AnswerParams]
    ) -> AsyncIterator[RetrieveOut | str | AgentStep | AnswerOut]:
        """Yields the retrieval result and pieces of text, or an agent's steps, then the answer; see `Client.stream`."""
        content = await to_thread.run_sync(partial(form, image, question, options, stream=True))
        async with self._sent("/answer", content) as response:
            events = EventReader(response)
            async for data in response.aiter_bytes():
                for event in events.feed(data):
                    yield event
            events.close()

    async def put_entity(
        self, entity_id: str, article: Mapping[str, Any], image: ImageInput | None = None
    ) -> ChangeOut:
        """Adds or replaces an article; see `Client.put_entity`."""
        content = await to_thread.run_sync(article_form, article, image)
        return await self._asked(ChangeOut, entity_path(entity_id), content, "PUT")

    async def delete_entity(self, entity_id: str) -> ChangeOut:
        """Removes an entity; see `Client.delete_entity`."""
        return await self._asked(ChangeOut, entity_path(entity_id), {}, "DELETE")

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Returns the client, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self.aclose()

    async def _asked(self, model: type[Model], path: str, content: dict[str, Any], method: str = "POST") -> Model:
        async with self._sent(path, content, method) as response:
            await response.aread()
        return parsed(model, response)

    @asynccontextmanager
    async def _sent(self, path: str, content: dict[str, Any], method: str = "POST") -> AsyncIterator[httpx.Response]:
        """Yields the response of success, its body unread."""
        for attempt in range(self._retries + 1):
            try:
                async with self._http.stream(method, path, **content) as response:
                    if response.is_success:
                        yield response
                        return
                    await response.aread()
            except httpx.HTTPError as error:
                raise unreachable(str(self._http.base_url), error) from error
            wait = wait_of(response, attempt)
            if wait is None or attempt == self._retries:
                raise failure(response)
            await sleep(wait)


def _whole(last: RetrieveOut | str | AgentStep | AnswerOut) -> AnswerOut:
    assert isinstance(last, AnswerOut)  # `EventReader.close` has checked that the stream is complete
    return last


def _settings(url: str, api_key: str | None, timeout: float, retries: int) -> dict[str, Any]:
    if timeout <= 0 or retries < 0:
        raise ValueError(f"a client needs timeout > 0 and retries >= 0, got {timeout=}, {retries=}")
    key = (api_key or "").strip()  # a file's line break belongs to no key
    if any(not "!" <= letter <= "~" for letter in key):
        raise ValueError("api_key: has spaces, line breaks or letters that no key has")
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {key}"} if key else {},
        "timeout": httpx.Timeout(timeout, connect=min(timeout, MAX_CONNECT)),
    }
