"""The state that a policy reads and extends: images, regions, numbered sources, rounds and the remaining budget."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from PIL import Image

from chat_models.harmless import harmless, harmless_source
from chat_models.messages import Message
from search_agents.boxes import Convention
from search_agents.cache import ResultCache
from search_agents.regions import Box

if TYPE_CHECKING:
    from chat_models.replies import ChatReply, Ending
    from search_agents.budget import Spending
    from search_agents.model import Asking
    from search_agents.tool import Tool

IMAGE = "image"
"""The name of the image that the question is about."""
Watch = Callable[[str, Mapping[str, Any]], None]
"""A callback for the steps of a run as they happen: their names (`request`, `round`, `call`) and JSON values (see
`search_agents.trail`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """An excerpt that a tool found.

    Attributes:
        title: The title of the article or page.
        text: The excerpt.
        url: The origin: a URL, or an entity's id.
        section: The section's title.
        span: Start and end of the excerpt in the text of the section or page, in characters.
        related: How well the found image matches the one searched for.
    """

    title: str
    text: str
    url: str
    section: str = ""
    span: tuple[int, int] | None = None
    related: str = field(default="", compare=False)

    @property
    def heading(self) -> str:
        """The title, followed by the section's if there is one."""
        return f"{self.title}, {self.section}" if self.section else self.title


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` is a JSON object, or the text that should have been one."""

    tool: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a call.

    Attributes:
        sources: Excerpts, which the run numbers.
        text: Further text for the model.
        images: New images by name, which the model sees.
        found: Ids of the entities that an image search found, by the image's hash; the next search of the same image
            excludes them.
        answer: An answer by the tool itself.
        error: What was wrong with the call, or why it failed.
        complete: Whether nothing failed; otherwise, the same call may return more.
    """

    sources: tuple[Source, ...] = ()
    text: str = ""
    images: Mapping[str, Image.Image] = field(default_factory=dict)
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answer: str | None = None
    error: str = ""
    complete: bool = True


def harmless_observation(seen: Observation) -> Observation:
    """Returns an observation whose texts, written by others, cannot speak as the conversation or number results."""
    sources = tuple(
        replace(
            source,
            title=harmless_source(source.title),
            text=harmless_source(source.text),
            section=harmless_source(source.section),
            related=harmless_source(source.related),
        )
        for source in seen.sources
    )
    answer = None if seen.answer is None else harmless(seen.answer)
    return replace(seen, sources=sources, text=harmless(seen.text), error=harmless(seen.error), answer=answer)


@dataclass(slots=True)
class CallRecord:
    """A call with its result.

    Attributes:
        call: The call.
        observation: Its result.
        numbers: The numbers of its sources in the run.
        ms: Its duration in milliseconds.
        cost: Its price.
        cached: Whether the result was cached.
        repeated: Whether an earlier round of the run has the same call with its result.
    """

    call: Call
    observation: Observation = field(default_factory=lambda: Observation(error="stopped before it ended"))
    numbers: tuple[int, ...] = ()
    ms: float = 0.0
    cost: float = 0.0
    cached: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request to the model: its purpose, tokens, milliseconds and price, how the reply ended, and what it lacked."""

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    ms: float
    money: float
    ending: Ending = "complete"
    without: tuple[str, ...] = ()


@dataclass(slots=True)
class Round:
    """A round: the policy's thought, the tools it called, and what was malformed in the model's reply."""

    number: int
    thought: str = ""
    requests: list[RequestRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The next action of a policy: calls, or the answer, or neither if the model's reply was malformed.

    Attributes:
        thought: The reason, for the trail.
        calls: Tools to call concurrently.
        answer: The answer; `None` if there is none yet.
        abstains: Whether to end the run without an answer.
        problem: What was malformed in the model's reply.
    """

    thought: str = ""
    calls: tuple[Call, ...] = ()
    answer: str | None = None
    abstains: bool = False
    problem: str = ""


@dataclass
class AgentRun:
    """The state of one run.

    Attributes:
        question: The question.
        images: The question's images (the first is `IMAGE`), and those that tools made, by name.
        boxes: Regions of the question's image, numbered from 1.
        tools: The tools of this run by name.
        asking: Sends requests to the model.
        spending: What was spent, and the budget.
        sources: All sources; the number of a source is its position from 1.
        rounds: All rounds, the current one last.
        known: The best answer so far, used if the budget ends.
        malformed: Number of malformed replies and calls so far.
        least_tokens: Minimum length limit of every reply, for models that reason before they write.
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
    asking: Asking
    spending: Spending
    sources: list[Source] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    known: str | None = None
    malformed: int = 0
    least_tokens: int = 0
    counted_ratio: float = 1.0
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
    def search_tool(self) -> str:
        """The name of the text search tool: for the web if there is one, otherwise for the index."""
        return "web_search" if "web_search" in self.tools else "text_search"

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
        return await self.asking.ask(self, purpose, messages, max_tokens=max_tokens, tools=tools, schema=schema)

    def add_request(self, record: RequestRecord) -> None:
        """Adds a request to the current round."""
        self.rounds[-1].requests.append(record)
        if self.watch is not None:
            self.watch("request", {"round": self.rounds[-1].number, **asdict(record)})

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
        return f"[{number}] {source.heading} ({source.url})\n{source.text}"


def digest_of(image: Image.Image) -> str:
    """Returns a hash of an image's size and pixels."""
    return hashlib.sha256(f"{image.mode} {image.size} ".encode() + image.tobytes()).hexdigest()[:32]
