"""The state that a policy reads and extends (images, regions, numbered sources, rounds, budget), and the tools."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache, partial
from typing import Any

from PIL import Image
from pydantic import BaseModel

from chat_models.messages import Message, with_text
from chat_models.replies import ChatReply
from retriever.trail_views import RequestStep, Watch
from search_agents.budget import CUT, PromptCounts, Spending, believed
from search_agents.cache import ResultCache
from search_agents.context import IMAGE_TOKENS, count_images, fitted, text_tokens, tokens_of
from search_agents.corpus import Corpus, decode_reply, encode_reply, timed
from search_agents.model import REASONING_TOKENS, Planner
from search_agents.records import (
    CallRecord,
    Observation,
    RequestRecord,
    Round,
    Source,
    digest_of,
    heading_of,
    without_of,
)
from search_agents.regions import Box, Convention

logger = logging.getLogger(__name__)
CONTEXT_TOKENS = 16_384
"""Context length in tokens of a model whose own is not set."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name in calls.
        description: What it does, for the model.
        arguments: The pydantic model of its arguments, which provides the JSON schema and validates calls.
        run: Runs a call, given its arguments and the run, which it must not change.
        key: Returns everything else that determines the result, such as an image's hash, as a JSON value. Without it,
            results are neither cached nor recorded, because they are cheap and deterministic.
        cost: Price per unit.
        units: Returns the number of units of a call, such as the queries of a search.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any, AgentRun], Awaitable[Observation]]
    key: Callable[[Any, AgentRun], object] | None = None
    cost: float = 0.0
    units: Callable[[Any], int] = lambda arguments: 1

    def price(self, arguments: BaseModel) -> float:
        """Returns the price of a call, in the budget's money."""
        return self.cost * self.units(arguments)

    def schema(self) -> dict[str, Any]:
        """Returns the tool in the format of the OpenAI API."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": _schema(self.arguments),
        }
        return {"type": "function", "function": function}

    def cache_key(self, arguments: BaseModel, run: AgentRun) -> str | None:
        """Returns the cache key of a call, or `None` if its result must not be cached."""
        if self.key is None:
            return None
        key = {"tool": self.name, "arguments": arguments.model_dump(mode="json"), "with": self.key(arguments, run)}
        return json.dumps(key, ensure_ascii=False, sort_keys=True)


@lru_cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of arguments; cached because computing one takes milliseconds."""
    return arguments.model_json_schema()


@dataclass
class AgentRun:
    """The state of one run.

    Attributes:
        question: The question.
        images: The question's images (the first is `IMAGE`), and those that tools made, by name.
        boxes: Regions of the question's image, numbered from 1.
        tools: The tools of this run by name.
        planner: The chat model that plans.
        spending: What was spent, and the budget.
        context_tokens: The model's context length in tokens.
        corpus: Where the model's replies are recorded or replayed.
        today: The day that the model is told; `None` to tell none.
        sources: All sources; the number of a source is its position from 1.
        rounds: All rounds, the current one last.
        known: The best answer so far, used if the budget ends.
        malformed: Number of malformed replies and calls so far.
        least_tokens: Minimum length limit of every reply, for models that reason before they write.
        prompts: What the server counts, compared with our estimates.
        counted_ratio: Ratio of counted to estimated prompt tokens of the last request, at least 1.
        image_parts: The question's image and its overlay, encoded for the model at the first request.
        found: Ids of the entities that image searches found, by the image's hash.
        boxes_are: The convention of boxes that the model writes.
        watch: Receives every step, if set.
        verbatim: Whether the answer is the model's reply as it is, with anything that looks like a citation.
        cache: Cache of tool results.
        calls_known: The calls whose results the model has.
    """

    question: str
    images: dict[str, Image.Image]
    boxes: tuple[Box, ...]
    tools: Mapping[str, Tool]
    planner: Planner
    spending: Spending
    context_tokens: int = CONTEXT_TOKENS
    corpus: Corpus | None = None
    today: date | None = None
    sources: list[Source] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    known: str | None = None
    malformed: int = 0
    least_tokens: int = 0
    counted_ratio: float = 1.0
    prompts: PromptCounts = field(default_factory=PromptCounts)
    image_parts: list[Message] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)
    boxes_are: Convention = "pixels"
    watch: Watch | None = None
    verbatim: bool = False
    cache: ResultCache[tuple[Observation, float]] = field(default_factory=ResultCache)
    calls_known: set[str] = field(default_factory=set)
    _digests: dict[str, str] = field(default_factory=dict)
    _numbers: dict[Source, int] = field(default_factory=dict)

    @property
    def without(self) -> tuple[str, ...]:
        """What the model was asked without at some request."""
        return without_of(self.rounds)

    @property
    def search_tool(self) -> str:
        """The name of the text search tool: for the web if there is one, otherwise for the index."""
        return "web_search" if "web_search" in self.tools else "text_search"

    def dated(self, message: Message) -> Message:
        """Returns a message that begins with the day, if the model is told it, as every system message does."""
        return message if self.today is None else with_text(message, f"Today is {self.today:%A, %Y-%m-%d}.", first=True)

    async def ask(
        self,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """Sends a request to the model, within the budget.

        Args:
            purpose: The purpose of the request, for the trail.
            messages: The conversation; if it exceeds the model's context, the oldest results are dropped first.
            max_tokens: Maximum tokens of the reply.
            tools: Tools that the model may call.
            schema: The JSON schema of the reply, for servers with structured outputs.

        Raises:
            OutOfBudget: The request might cost more than is left.
            ChatError: The model's server failed.
        """
        if messages[0]["role"] == "system":
            messages = [self.dated(messages[0]), *messages[1:]]
        schemas = [tool.schema() for tool in tools]
        extra = text_tokens(json.dumps([schemas, schema]))
        longer = min(REASONING_TOKENS, self.context_tokens // 4)
        while True:
            limit = max(max_tokens, self.least_tokens)
            fitting = fitted(messages, self.context_tokens - limit - extra)
            estimate = tokens_of(fitting) + extra
            self.spending.check_request(math.ceil(estimate * self.counted_ratio), limit)
            make = partial(self.planner.reply, fitting, limit, schemas, schema)
            if self.corpus is None:
                reply, ms = await timed(make)
            else:
                key = json.dumps([self.planner.name, fitting, limit, schemas, schema], sort_keys=True)
                reply, ms = await self.corpus.get("model", key, make, encode_reply, decode_reply)
            reply = self._add(purpose, reply, ms, estimate, fitting)
            if fitting != list(messages) or reply.without:
                self.calls_known.clear()  # the model may no longer see their results
            if limit >= longer or not reply.cut or reply.text or reply.calls:
                return reply
            self.least_tokens = longer  # the reasoning used up the limit

    def _add(self, purpose: str, reply: ChatReply, ms: float, estimate: int, sent: Sequence[Message]) -> ChatReply:
        """Records a request; returns its reply with token counts, estimated unless the server's can be true."""
        said = (reply.thoughts, reply.text, *(call.name + call.arguments for call in reply.calls))
        completion = believed(reply.completion_tokens, text_tokens("".join(said)))
        images, counted = count_images(sent), reply.prompt_tokens
        others = [message for message in sent if message["role"] != "assistant"]  # whose thoughts templates leave out
        least = tokens_of(others) - IMAGE_TOKENS * images
        prompt = believed(counted, estimate, least)
        if self.prompts.is_cut(least, images, counted):
            prompt = max(prompt, estimate)
            if CUT not in self.without:
                name = self.planner.name
                logger.warning("%s counts %s tokens of a prompt of about %d: %s", name, counted, estimate, CUT)
            reply = replace(reply, without=(*reply.without, CUT))
        self.counted_ratio = max(1.0, prompt / estimate)
        self.spending.add_request(prompt, completion)
        money = self.spending.budget.price(prompt, completion)
        model = "" if reply.model == self.planner.name else reply.model
        record = RequestRecord(purpose, prompt, completion, ms, money, reply.ending, reply.without, model)
        self.rounds[-1].requests.append(record)
        if self.watch is not None:
            self.watch("request", RequestStep.of(record, round=self.rounds[-1].number).model_dump(mode="json"))
        return replace(reply, prompt_tokens=prompt, completion_tokens=completion)

    def number(self, source: Source) -> int:
        """Returns the number of a source; assigns the next one if the source is new."""
        if source not in self._numbers:
            self.sources.append(source)
            self._numbers[source] = len(self.sources)
        return self._numbers[source]

    def image(self, name: str) -> Image.Image:
        """Returns an image by its name.

        Raises:
            ValueError: There is no image with this name.
        """
        if name not in self.images:
            raise ValueError(f"there is no image {name!r}; there are {', '.join(self.images) or 'none'}")
        return self.images[name]

    def digest(self, name: str) -> str:
        """Returns a hash of an image's pixels."""
        if name not in self._digests:
            image = self.image(name)
            self._digests[name] = digest_of(image)
        return self._digests[name]

    def results(self, calls: Sequence[CallRecord]) -> str:
        """Returns the results of calls as text for the model, with numbered sources."""
        return "\n\n".join(self._result(record) for record in calls)

    def _result(self, record: CallRecord) -> str:
        seen = record.observation
        if seen.error:
            return f"{record.call.tool}: {seen.error}"
        lines = [f"{record.call.tool}:", *([seen.text] if seen.text else [])]
        lines += [self.quoted(number) for number in record.numbers]
        lines += [f"New image: {name}" for name in seen.images]
        return "\n".join(lines if len(lines) > 1 else [*lines, "nothing found"])

    def quoted(self, number: int) -> str:
        """Returns a source with its number as text for the model."""
        source = self.sources[number - 1]
        return f"[{number}] {heading_of(source)} ({source.url})\n{source.text}"
