"""The loop of every agent: runs the calls of a policy, counts, and asks for the answer when the budget ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Protocol

from PIL import Image

from chat_models.deadlines import within
from chat_models.errors import ChatError
from retriever.trail_views import Watch
from search_agents.budget import Budget, OutOfBudget, Spending
from search_agents.cache import ResultCache
from search_agents.corpus import Corpus, NotRecorded, decode_observation, encode_observation, timed
from search_agents.model import Planner
from search_agents.records import IMAGE, Call, CallRecord, Decision, Observation, Round, harmless_observation
from search_agents.regions import Box, BoxSetting, ProposeRegions, convention_of
from search_agents.state import CONTEXT_TOKENS, AgentRun, Tool
from search_agents.tool import check_call
from search_agents.trail import AgentAnswer, call_steps, make_answer, round_step

MAX_CALLS = 16
"""Maximum number of calls per round; a model that repeats itself can write hundreds."""


class Policy(Protocol):
    """Chooses the next action. Each run needs its own object."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def rounds(self) -> int:
        """Maximum number of rounds, unless the budget sets it."""

    async def decide(self, run: AgentRun) -> Decision:
        """Returns the next action; `run.rounds[-2]` has the results of the previous one."""

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns an answer from what is known, or `None`; called after a limit has ended the rounds."""


class Engine:
    """Runs policies over tools. One engine serves any number of runs within one event loop.

    Args:
        planner: The chat model that plans.
        tools: The tools.
        context_tokens: The model's context length in tokens.
        cache: The cache of tool results, shared by all runs. With a corpus, each run has its own cache instead, so that
            its trail does not depend on earlier runs; the corpus avoids repeated searches.
        corpus: Where results of tools and replies of the model are recorded or replayed.
        propose: Proposes regions for images that come without any.
        boxes: What coordinates of the model's boxes count; by default what its family was trained on.
        today: Returns the day that models are told; by default none.

    Raises:
        ValueError: Two tools have the same name.
    """

    def __init__(
        self,
        planner: Planner,
        tools: Sequence[Tool],
        *,
        context_tokens: int = CONTEXT_TOKENS,
        cache: ResultCache[tuple[Observation, float]] | None = None,
        corpus: Corpus | None = None,
        propose: ProposeRegions | None = None,
        boxes: BoxSetting = "auto",
        today: Callable[[], date | None] | None = None,
    ) -> None:
        self._boxes_are = convention_of(planner.name, boxes)
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError(f"every tool needs a name of its own, got {', '.join(tool.name for tool in tools)}")
        self._planner, self._context_tokens = planner, context_tokens
        self._cache = ResultCache[tuple[Observation, float]]() if cache is None else cache
        self._corpus, self._propose = corpus, propose
        self._today = today

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name."""
        return self._tools

    async def run(
        self,
        policy: Policy,
        question: str,
        image: Image.Image | None,
        *,
        boxes: Sequence[Box] = (),
        more_images: Sequence[Image.Image] = (),
        budget: Budget | None = None,
        watch: Watch | None = None,
        dated: bool = True,
    ) -> AgentAnswer:
        """Answers a question about an image; always returns an answer or an abstention, with the trail.

        Args:
            policy: Chooses the actions; must be a new object.
            question: The question.
            image: The image; `None` for a text-only question.
            boxes: Regions of the image, numbered from 1; without any, they may be proposed.
            more_images: Further images of the question.
            budget: The limits of the run.
            watch: Receives every step as it happens.
            dated: Whether the model is told the day, which published prompts do not.
        """
        budget = budget or Budget()
        given = [one for one in (image, *more_images) if one is not None]
        images = {f"{IMAGE}_{n}" if n > 1 else IMAGE: one for n, one in enumerate(given, start=1)}
        if not boxes and image is not None and self._propose is not None:
            boxes = await asyncio.to_thread(self._propose, image)
        run = self._begin(question, images, budget, boxes)
        run.watch, run.today = watch, self._today() if dated and self._today else None
        if self._corpus is None:
            run.cache = self._cache
        for name in images:
            await asyncio.to_thread(run.digest, name)  # slow for large images, so not in the event loop
        end = time.monotonic() + budget.seconds
        answer: str | None = None
        failure: ChatError | NotRecorded | None = None
        rounds = policy.rounds if budget.rounds is None else budget.rounds
        abstains, stopped = False, ""
        try:
            async with within(budget.seconds * run.spending.share):
                answer, abstains, stopped = await self._rounds(policy, run, rounds)
        except (OutOfBudget, TimeoutError, ChatError, NotRecorded) as error:
            stopped, failure = _reason(error), error if isinstance(error, ChatError | NotRecorded) else None
        if answer is None and not abstains and failure is None:
            run.spending.share = 1.0
            run.rounds.append(Round(len(run.rounds) + 1))
            try:
                async with within(max(0.0, end - time.monotonic())):
                    answer = await policy.conclude(run)
            except (OutOfBudget, TimeoutError, ChatError, NotRecorded) as error:
                stopped = stopped if stopped == _reason(error) else f"{stopped}, then {_reason(error)}"
                failure = error if isinstance(error, ChatError | NotRecorded) else None
            if not run.rounds[-1].requests:
                run.rounds.pop()
        if answer is None or not run.verbatim:
            answer = (answer or "").strip() or (None if abstains else run.known)
        return make_answer(run, policy.name, answer, stopped, failure)

    async def call(self, call: Call, question: str = "", image: Image.Image | None = None) -> Observation:
        """Runs one tool outside of any run and returns its observation."""
        images = {} if image is None else {IMAGE: image}
        run = self._begin(question, images, Budget())
        record = CallRecord(call)
        await self._call(run, record)
        return record.observation

    def _begin(
        self, question: str, images: dict[str, Image.Image], budget: Budget, boxes: Sequence[Box] = ()
    ) -> AgentRun:
        return AgentRun(
            question,
            images,
            tuple(boxes),
            self._tools,
            self._planner,
            Spending(budget),
            self._context_tokens,
            self._corpus,
            boxes_are=self._boxes_are,
        )

    async def _rounds(self, policy: Policy, run: AgentRun, rounds: int) -> tuple[str | None, bool, str]:
        """Returns the answer, whether the policy abstains, and otherwise the limit that stopped it."""
        for number in range(1, rounds + 1):
            run.rounds.append(Round(number))
            decision = await policy.decide(run)
            current = run.rounds[-1]
            current.thought, current.problem = decision.thought, decision.problem
            run.malformed += bool(decision.problem)
            ends = decision.answer is not None or decision.abstains
            if not ends:
                current.calls = [CallRecord(call) for call in decision.calls[:MAX_CALLS]]
                if len(decision.calls) > MAX_CALLS:
                    current.problem = f"{len(decision.calls)} calls at once; only the first {MAX_CALLS} were run"
            if run.watch is not None:
                run.watch("round", round_step(current))
            if ends:
                return decision.answer, decision.abstains, ""
            await self._call_all(run, current.calls)
            if run.watch is not None and current.calls:
                for step in await asyncio.to_thread(call_steps, run, current):
                    run.watch("call", step)
            if run.malformed >= run.spending.budget.malformed:
                return None, False, "malformed replies"
        return None, False, "rounds"

    async def _call_all(self, run: AgentRun, records: Sequence[CallRecord]) -> None:
        """Runs calls concurrently. Sources are numbered in the order of the calls, not of their completion."""
        try:
            await asyncio.gather(*(self._call(run, record) for record in records))
        finally:
            for record in records:
                seen = record.observation
                record.numbers = tuple(run.number(source) for source in seen.sources)
                run.images.update(seen.images)
                for image, entities in seen.found.items():
                    run.found[image] = list(dict.fromkeys([*run.found.get(image, ()), *entities]))

    async def _call(self, run: AgentRun, record: CallRecord) -> None:
        """Runs a call. What it returns is data: it cannot speak as the conversation."""
        identity = await self._observe(run, record)
        record.observation = harmless_observation(record.observation)
        if not record.observation.error and record.observation.complete:
            record.repeated = identity in run.calls_known
            run.calls_known.add(identity)

    async def _observe(self, run: AgentRun, record: CallRecord) -> str:
        """Runs a call and returns what identifies it in the run."""
        try:
            tool, arguments = check_call(record.call, run.tools)
            key = tool.cache_key(arguments, run)
        except ValueError as error:  # an unknown tool, invalid arguments, or an image or region that does not exist
            run.malformed += 1
            record.observation = Observation(error=str(error))
            return ""
        identity = key or f"{tool.name} {arguments.model_dump_json()}"
        price = 0.0 if key is not None and key in run.cache else tool.price(arguments)
        refusal = run.spending.add_call(tool.name, price)
        if refusal:
            record.observation = Observation(error=refusal)
            return identity

        async def make() -> tuple[Observation, float]:
            if self._corpus is None or key is None:
                return await timed(observe)
            return await self._corpus.get(tool.name, key, observe, encode_observation, decode_observation)

        async def observe() -> Observation:
            try:
                return await tool.run(arguments, run)
            except (ValueError, OSError) as error:  # a call that cannot run, a failed server, or a timeout
                run.malformed += key is None and isinstance(error, ValueError)  # such as a region that does not exist
                return Observation(error=str(error) or type(error).__name__)

        if key is None:
            (record.observation, record.ms), record.cost = await make(), price
            if self._corpus is not None:
                record.ms = 0.0  # recomputed rather than replayed, so its time would make the trails differ
            return identity
        try:
            (record.observation, record.ms), record.cached = await run.cache.get(key, make, _works)
        except NotRecorded as error:
            record.observation = Observation(error=str(error))
        record.cost = price
        return identity


def _works(result: tuple[Observation, float]) -> bool:
    return not result[0].error and result[0].complete and result[0].may_keep


def _reason(error: Exception) -> str:
    if isinstance(error, OutOfBudget):
        return error.limit
    return "seconds" if isinstance(error, TimeoutError) else "the model failed"
