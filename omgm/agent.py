"""An agent over an index: a planner behind an OpenAI-compatible server, and the tools it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import httpx

from agents.budget import Budget
from agents.corpus import Corpus
from agents.engine import Engine, Policy
from agents.model import Planner
from agents.policies import POLICIES
from agents.regions import Box
from agents.tool import Tool
from agents.tools.images import rotate, zoom_in
from agents.tools.index import IndexTools
from agents.tools.page import Opener, open_page
from agents.tools.web import searxng, web_pages, web_search
from agents.trail import AgentAnswer
from llm.background import BackgroundLoop
from omgm.api import OMGM
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Web
from retriever.images import ImageInput, load_image
from retriever.types import Query, RetrievalResult


class Agent:
    """Answers questions that single retrieval cannot, by one of `agents.policies.POLICIES`.

    Any number of threads may use it; they share a cache of what was searched.

    Args:
        omgm: The index with its steps and its generator. It stays open when the agent is closed.
        planner: The model that plans; it should see images. Closed with the agent.
        context_tokens: The model's context.
        searxng_url: A SearXNG server for searches of the web; without it only the index is searched.
        web_settings: How web pages are fetched; without it none are. Private networks are refused.
        corpus: Where searches, pages and the model's replies are recorded or replayed.
    """

    def __init__(
        self,
        omgm: OMGM,
        planner: Planner,
        *,
        context_tokens: int = 16_384,
        searxng_url: str = "",
        web_settings: DownloadSettings | None = None,
        corpus: Corpus | None = None,
    ) -> None:
        self._omgm, self._planner = omgm, planner
        self._context_tokens, self._corpus = context_tokens, corpus
        self._searxng_url, self._web_settings = searxng_url, web_settings
        self._loop = BackgroundLoop()
        self._engine: Engine | None = None
        self._closing: list[httpx.AsyncClient | Planner] = [planner]

    def ask(
        self,
        image: ImageInput,
        question: str,
        mode: str = "auto",
        *,
        boxes: Sequence[Sequence[float]] = (),
        budget: Budget | None = None,
    ) -> AgentAnswer:
        """Answers a question about an image.

        Args:
            image: As in `OMGM.ask`.
            question: The question.
            mode: The policy.
            boxes: Regions of the image that the model may name by number: x1, y1, x2, y2 in its pixels.
            budget: The limits.

        Raises:
            ValueError: The image is unreadable, the question is empty, the mode unknown, or a box outside the image.
        """
        if mode not in POLICIES:
            raise ValueError(f"mode must be one of {', '.join(POLICIES)}; got {mode!r}")
        if not question.strip():
            raise ValueError("the question is empty")
        loaded = load_image(image)
        regions = [Box.of(corners, loaded.size) for corners in boxes]

        async def run() -> AgentAnswer:
            engine = self._opened()
            return await engine.run(POLICIES[mode](), question, loaded, boxes=regions, budget=budget)

        return self._loop.submit(run()).result()

    async def ask_async(
        self,
        image: ImageInput,
        question: str,
        mode: str = "auto",
        *,
        boxes: Sequence[Sequence[float]] = (),
        budget: Budget | None = None,
    ) -> AgentAnswer:
        """Answers a question about an image without blocking the caller's event loop; see `ask`."""
        return await asyncio.to_thread(self.ask, image, question, mode, boxes=boxes, budget=budget)

    def run(
        self, policy: Policy, question: str, images: Sequence[ImageInput] = (), *, budget: Budget | None = None
    ) -> AgentAnswer:
        """Lets a policy answer a question about any number of images, the main one first, or about none.

        Raises:
            ValueError: An image is unreadable.
        """
        loaded = [load_image(image) for image in images]

        async def run() -> AgentAnswer:
            first = loaded[0] if loaded else None
            return await self._opened().run(policy, question, first, more_images=loaded[1:], budget=budget)

        return self._loop.submit(run()).result()

    def close(self) -> None:
        """Closes the connections, the client's too, and ends the thread."""

        async def close() -> None:
            for client in self._closing:
                await client.aclose()

        self._loop.submit(close()).result()
        self._loop.close()

    def __enter__(self) -> Self:
        """Returns itself, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes it."""
        self.close()

    def _opened(self) -> Engine:
        """Returns the engine; its connections belong to the loop that this is called in."""
        if self._engine is None:
            index = IndexTools(self._omgm.index, self._retrieve, self._answer)
            openers: list[Opener] = [index.opener]
            tools: list[Tool] = [*index.tools(), zoom_in(), rotate()]
            if self._searxng_url:
                client = httpx.AsyncClient(trust_env=False)
                self._closing.append(client)
                tools.append(web_search(searxng(self._searxng_url, client), self._searxng_url))
            if self._web_settings is not None:
                openers.append(web_pages(self._fetch))
            tools.append(open_page(openers))
            self._engine = Engine(self._planner, tools, context_tokens=self._context_tokens, corpus=self._corpus)
        return self._engine

    async def _fetch(self, url: str, limit: int) -> bytes:
        assert self._web_settings is not None
        try:
            async with Web(self._web_settings) as web:
                return await web.get(url, limit)
        except Failure as failure:
            raise ValueError(f"{url[:200]} cannot be fetched: {failure}") from failure

    async def _retrieve(self, query: Query) -> RetrievalResult:
        [result] = await asyncio.to_thread(self._omgm.run_steps, [query])
        return result

    async def _answer(self, query: Query) -> tuple[str | None, RetrievalResult]:
        result, answer = await self._omgm.answer_query(query)
        return answer.answer, result
