"""An agent over an index: a planner behind an OpenAI-compatible server, and the tools it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from agents.budget import Budget
from agents.corpus import Corpus
from agents.engine import Engine
from agents.model import Planner
from agents.policies import POLICIES
from agents.regions import Box, ProposeRegions
from agents.tools.index import IndexTools
from agents.trail import AgentAnswer
from llm.background import BackgroundLoop
from omgm.api import OMGM
from omgm.downloads.images.settings import DownloadSettings
from omgm.web_access import WebAccess, WebSettings, agent_tools
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
        web: All that agents may use of the web, in place of `searxng_url` and `web_settings`.
        propose: Proposes regions of an image that comes without any.
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
        web: WebSettings | None = None,
        propose: ProposeRegions | None = None,
        corpus: Corpus | None = None,
    ) -> None:
        self._omgm, self._planner = omgm, planner
        self._context_tokens, self._corpus = context_tokens, corpus
        self._web = web or WebSettings(
            engine="searxng" if searxng_url else "", searxng_url=searxng_url, pages=web_settings
        )
        self._propose = propose
        self._loop = BackgroundLoop()
        self._engine: Engine | None = None
        self._closing: list[WebAccess | Planner] = [planner]

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
            if not regions and self._propose is not None:
                regions.extend(await asyncio.to_thread(self._propose, loaded))
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
            web = WebAccess(self._web)
            self._closing.append(web)
            tools = agent_tools(index, web)
            self._engine = Engine(self._planner, tools, context_tokens=self._context_tokens, corpus=self._corpus)
        return self._engine

    async def _retrieve(self, query: Query) -> RetrievalResult:
        [result] = await asyncio.to_thread(self._omgm.run_steps, [query])
        return result

    async def _answer(self, query: Query) -> tuple[str | None, RetrievalResult]:
        result, answer = await self._omgm.answer_query(query)
        return answer.answer, result
