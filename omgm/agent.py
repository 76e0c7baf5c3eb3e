"""An agent over an index: a planner (a chat model) and the tools that it calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import date
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from PIL import Image

from chat_models.background import BackgroundLoop
from chat_models.messages import Message
from chat_models.replies import ChatReply
from omgm.api import OMGM
from omgm.settings import AgentSettings
from omgm.web_access import TOOLS, WebAccess, WebSettings, agent_tools, web_of
from retriever.images import ImageInput, load_image
from retriever.searching import Searcher
from retriever.trail_views import Watch
from search_agents.budget import Budget
from search_agents.cache import ResultCache
from search_agents.corpus import Corpus
from search_agents.engine import Engine, Policy
from search_agents.model import Planner, Schema, Tools
from search_agents.policies import policy_kind, policy_names, policy_of
from search_agents.records import Call, Observation
from search_agents.regions import BoxSetting, ProposeRegions, boxes_of
from search_agents.state import CONTEXT_TOKENS
from search_agents.tools.index import IndexTools
from search_agents.trail import AgentAnswer
from search_agents.wordings import Wordings, stored

NO_MODEL = "an agent needs a chat model: set generator.base_url and generator.model"


def budget_of(settings: AgentSettings) -> Budget:
    """Returns the limits of a run from a profile's settings."""
    return Budget(
        rounds=settings.rounds,
        tokens=settings.tokens,
        seconds=settings.seconds,
        money=math.inf if settings.money is None else settings.money,
        calls=settings.calls,
        prompt_price=settings.prompt_price,
        completion_price=settings.completion_price,
    )


def wordings_of(mode: str, prompts: str, *, evaluation: bool = False) -> Wordings | None:
    """Returns the published prompts that a policy uses, `None` if it uses ours, as those without a paper always do.

    Args:
        mode: The policy's name.
        prompts: The setting `agents.prompts`.
        evaluation: Whether published prompts are the default if they were downloaded.

    Raises:
        ValueError: The published prompts are required and were not downloaded.
    """
    kind = policy_kind(mode)
    if kind.prompts is None or prompts == "own" or (not prompts and not evaluation):
        return None
    found = stored(kind.prompts)
    if prompts == "paper" and not kind.is_published(found):
        raise ValueError(
            f"agents.prompts: the published prompts of {mode} are not here; run `omgm download "
            f"--prompts {kind.prompts.name}` (docs/evaluation.md says which are only in a paper)"
        )
    return found


class AccessOptions(TypedDict, total=False):
    """What an agent may use, as its settings say.

    Attributes:
        context_tokens: The model's context length in tokens.
        web: The parts of the web that may be used; by default none. Private networks are refused.
        prices: The price per call of a tool, or per query for searches, by the tool's name.
        boxes: What coordinates of the model's boxes count; by default what its family was trained on.
        cache_seconds: Age in seconds up to which results of tools are used again.
    """

    cache_seconds: float
    context_tokens: int
    web: WebSettings | None
    prices: Mapping[str, float] | None
    boxes: BoxSetting


class RunOptions(TypedDict, total=False):
    """The options of one run.

    Attributes:
        boxes: Regions that the model may refer to by number: x1, y1, x2, y2 in pixels of the image.
        budget: The limits of the run.
        watch: Receives every step as it happens, in another thread; see `retriever.trail_views.Watch`.
    """

    boxes: Sequence[Sequence[float]]
    budget: Budget | None
    watch: Watch | None


def access_of(settings: AgentSettings) -> AccessOptions:
    """Returns a profile's settings of agents for `Agent` and `LazyEngine`.

    Raises:
        ValueError: A setting requires another one, or names a tool that does not exist.
    """
    for table in ("prices", "calls"):
        if unknown := sorted(getattr(settings, table).keys() - TOOLS):
            raise ValueError(
                f"agents.{table}: there is no tool {unknown[0]!r}; the tools are {', '.join(sorted(TOOLS))}"
            )
    return {
        "cache_seconds": settings.cache_seconds,
        "context_tokens": settings.context_tokens,
        "web": web_of(settings),
        "prices": settings.prices,
        "boxes": settings.boxes,
    }


class EngineOptions(AccessOptions, total=False):
    """What an agent may use, besides `AccessOptions`.

    Attributes:
        propose: Proposes regions for images that come without any.
        corpus: Where searches, pages and the model's replies are recorded or replayed.
    """

    propose: ProposeRegions | None
    corpus: Corpus | None


class LazyEngine:
    """An engine over an index, opened in the event loop that uses it, with a planner that is closed with it."""

    def __init__(self, searcher: Searcher, planner: Planner, **options: Unpack[EngineOptions]) -> None:
        _refuse_unknown(options, EngineOptions)
        self._searcher, self._planner, self._options = searcher, planner, options
        self._engine: Engine | None = None
        self._closing: list[WebAccess | Planner] = [planner]

    def opened(self) -> Engine:
        """Returns the engine; its connections belong to the current event loop."""
        if self._engine is None:
            index = IndexTools(self._searcher)
            web = WebAccess(self._options.get("web") or WebSettings())
            self._closing.append(web)
            prices = self._options.get("prices") or {}
            tools = [replace(tool, cost=prices.get(tool.name, 0.0)) for tool in agent_tools(index, web)]
            frozen = self._options.get("corpus") or (self._options.get("web") or WebSettings()).corpus
            self._engine = Engine(
                self._planner,
                tools,
                cache=ResultCache(self._options.get("cache_seconds", 3600)),
                today=date.today if frozen is None else lambda: frozen.today,
                context_tokens=self._options.get("context_tokens", CONTEXT_TOKENS),
                corpus=self._options.get("corpus"),
                propose=self._options.get("propose"),
                boxes=self._options.get("boxes", "auto"),
            )
        return self._engine

    async def aclose(self) -> None:
        """Closes all connections, including the planner's."""
        for client in self._closing:
            await client.aclose()


class Agent:
    """Answers questions that need more than one retrieval, with one of `search_agents.policies`.

    It is thread-safe; all threads share a cache of searches.

    Args:
        omgm: The index with its retrieval steps and generator. It stays open when the agent is closed.
        planner: The chat model that plans, preferably multimodal; closed with the agent. Without one, only `call`
            works.
        prompts: Whether policies ask in the words of their papers ("paper") or in ours ("own"); see `wordings_of`.
        **options: See `EngineOptions`.
    """

    def __init__(
        self,
        omgm: OMGM,
        planner: Planner | None,
        *,
        prompts: Literal["", "paper", "own"] = "own",
        **options: Unpack[EngineOptions],
    ) -> None:
        self._prompts = prompts
        self._plans = planner is not None
        self._engine = LazyEngine(omgm, planner or _NoPlanner(), **options)
        self._loop = BackgroundLoop()

    @property
    def modes(self) -> tuple[str, ...]:
        """The policies that it can follow: none without a planner, and none whose required prompts are missing."""
        return tuple(name for name in policy_names() if self._plans and self._can_follow(name))

    def _can_follow(self, name: str) -> bool:
        try:
            wordings_of(name, self._prompts)
        except ValueError:
            return False
        return True

    def ask(self, image: ImageInput, question: str, mode: str = "auto", **options: Unpack[RunOptions]) -> AgentAnswer:
        """Answers a question about an image.

        Args:
            image: As in `OMGM.ask`.
            question: The question.
            mode: The name of the policy.
            **options: See `RunOptions`.

        Raises:
            ValueError: The image is unreadable, the question is empty, the mode is unknown, a box is outside the image,
                or there is no planner.
        """
        return self._submit(image, question, mode, options).result()

    async def ask_async(
        self, image: ImageInput, question: str, mode: str = "auto", **options: Unpack[RunOptions]
    ) -> AgentAnswer:
        """Answers a question about an image without blocking the caller's event loop; see `ask`.

        Cancellation ends the run.
        """
        future = await asyncio.to_thread(self._submit, image, question, mode, options)
        return await asyncio.wrap_future(future)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], image: Image.Image | None = None, question: str = ""
    ) -> Observation:
        """Calls one tool for a question about an image and returns its observation.

        Raises:
            ValueError: There is no such tool, its arguments are invalid, or it failed.
        """

        async def run() -> Observation:
            return await self._engine.opened().call(Call(tool, arguments), question, image)

        seen = await asyncio.wrap_future(self._loop.submit(run()))
        if seen.error:
            raise ValueError(seen.error)
        return seen

    def run(
        self,
        policy: Policy,
        question: str,
        images: Sequence[ImageInput] = (),
        *,
        boxes: Sequence[Sequence[float]] = (),
        budget: Budget | None = None,
        dated: bool = True,
    ) -> AgentAnswer:
        """Runs a policy on a question about any number of images, the main one first, or about none.

        `boxes` are regions of the main image, as in `ask`; `dated` is whether the model is told the day.

        Raises:
            ValueError: An image is unreadable.
        """
        loaded = [load_image(image) for image in images]

        async def run() -> AgentAnswer:
            first = loaded[0] if loaded else None
            regions = [] if first is None else boxes_of(boxes, first)
            engine = self._engine.opened()
            others = loaded[1:]
            return await engine.run(
                policy, question, first, boxes=regions, more_images=others, budget=budget, dated=dated
            )

        return self._loop.submit(run()).result()

    def close(self) -> None:
        """Closes all connections, including the planner's, and stops the thread."""
        self._loop.submit(self._engine.aclose()).result()
        self._loop.close()

    def __enter__(self) -> Self:
        """Returns the agent, which is closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes the agent."""
        self.close()

    def _submit(self, image: ImageInput, question: str, mode: str, options: RunOptions) -> Future[AgentAnswer]:
        _refuse_unknown(options, RunOptions)
        if mode not in policy_names():
            raise ValueError(f"mode must be one of {', '.join(policy_names())}; got {mode!r}")
        if not self._plans:
            raise ValueError(NO_MODEL)
        if not (question := question.strip()):
            raise ValueError("the question is empty")
        loaded = load_image(image)
        regions = boxes_of(options.get("boxes", ()), loaded)
        wordings = wordings_of(mode, self._prompts)

        async def run() -> AgentAnswer:
            engine = self._engine.opened()
            budget, watch = options.get("budget"), options.get("watch")
            policy = policy_of(mode, wordings)
            dated = wordings is None
            return await engine.run(policy, question, loaded, boxes=regions, budget=budget, watch=watch, dated=dated)

        return self._loop.submit(run())


def _refuse_unknown(options: Mapping[str, Any], known: type) -> None:
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"an agent has no option {min(unknown)!r}; it has {', '.join(known.__annotations__)}")


class _NoPlanner:
    """A placeholder for agents without a planner, whose tools can be called but which cannot plan."""

    name = "none"

    async def reply(self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema) -> ChatReply:
        """Raises a `ValueError`."""
        raise ValueError(NO_MODEL)

    async def aclose(self) -> None:
        """Does nothing."""
