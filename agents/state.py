"""What a policy sees and extends: images, regions, numbered sources, rounds, and what may still be spent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from PIL import Image

from agents.cache import ResultCache
from agents.regions import Box
from llm.messages import Message

if TYPE_CHECKING:
    from agents.budget import Spending
    from agents.model import Asking
    from agents.tool import Tool
    from llm.replies import ChatReply

IMAGE = "image"
"""The name of the image that the question is about."""
Watch = Callable[[str, Mapping[str, Any]], None]
"""Takes the steps of a run as they happen: their names (`request`, `round`, `call`) and JSON values, as `agents.trail`
makes them."""


@dataclass(frozen=True, slots=True)
class Source:
    """An excerpt that a tool found.

    Attributes:
        title: The title of the article or page.
        text: The excerpt.
        url: Where it is from: a URL, or an entity's id.
        section: The section's title.
        span: Where the excerpt stands in the text of the section or page (start and end character).
        related: How the image of what was found relates to the image that was searched for.
    """

    title: str
    text: str
    url: str
    section: str = ""
    span: tuple[int, int] | None = None
    related: str = field(default="", compare=False)

    @property
    def heading(self) -> str:
        """The title, and that of the section."""
        return f"{self.title}, {self.section}" if self.section else self.title


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `arguments` is a JSON object, or the text that should have been one."""

    tool: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Observation:
    """What a call returned.

    Attributes:
        sources: Excerpts; the run numbers them.
        text: What the model should read beside them.
        images: New images by name; the model sees them.
        found: Ids of the entities that the search of an image found, by the image's hash; the next search of the same
            image leaves them out.
        answer: An answer that the tool gives itself.
        error: What was wrong with the call, or why it failed.
    """

    sources: tuple[Source, ...] = ()
    text: str = ""
    images: Mapping[str, Image.Image] = field(default_factory=dict)
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answer: str | None = None
    error: str = ""


@dataclass(slots=True)
class CallRecord:
    """A call with its result; `numbers` are those of its sources in the run."""

    call: Call
    observation: Observation = field(default_factory=lambda: Observation(error="stopped before it ended"))
    numbers: tuple[int, ...] = ()
    ms: float = 0.0
    cost: float = 0.0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request to the model: what it was for, its tokens and its milliseconds."""

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    ms: float
    money: float


@dataclass(slots=True)
class Round:
    """A round: what the policy thought, which tools it called, and what was malformed in the model's reply."""

    number: int
    thought: str = ""
    requests: list[RequestRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The next action of a policy: calls, or the answer, or neither if the model's reply was malformed.

    Attributes:
        thought: Why, for the trail.
        calls: Tools to call, all at once.
        answer: The answer; `None` if there is none yet.
        abstains: True ends the run without an answer.
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
        images: The question's image (`IMAGE`), if it has one, its further images, and what tools made of them, by name.
        boxes: Regions of the question's image, numbered from 1.
        tools: The tools of this run by name.
        asking: Sends requests to the model.
        spending: What was spent, and the budget.
        sources: All sources; the number of a source is its position from 1.
        rounds: All rounds, the current one last.
        known: The best answer so far, for when the budget ends.
        malformed: Malformed replies and calls so far.
        least_tokens: Length that every reply is allowed at least, for models that reason before they write.
        counted_ratio: Prompt tokens of the last request as the server counted them over those estimated, at least 1.
        image_parts: The question's image and its overlay, encoded for the model at the first request.
        found: By an image's hash, the ids of the entities that searches of it found.
        watch: Is told every step, if anybody watches.
        cache: Results of calls.
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
    watch: Watch | None = None
    cache: ResultCache[tuple[Observation, float]] = field(default_factory=ResultCache)
    _digests: dict[str, str] = field(default_factory=dict)
    _numbers: dict[Source, int] = field(default_factory=dict)

    @property
    def search_tool(self) -> str:
        """The tool that searches by text: in the web if it can, otherwise in the index."""
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
            purpose: What it is for, in the trail.
            messages: The conversation; what is too long for the model's context is left out, oldest results first.
            max_tokens: Longest reply.
            tools: Tools the model may call.
            schema: The JSON schema of the reply, for servers with structured outputs.

        Raises:
            OutOfBudget: It might cost more than is left.
            ChatError: The model's server failed.
        """
        return await self.asking.ask(self, purpose, messages, max_tokens=max_tokens, tools=tools, schema=schema)

    def add_request(self, record: RequestRecord) -> None:
        """Adds a request to the current round."""
        self.rounds[-1].requests.append(record)
        if self.watch is not None:
            self.watch("request", {"round": self.rounds[-1].number, **asdict(record)})

    def number(self, source: Source) -> int:
        """Returns the number of a source, a new one unless it was found before."""
        if source not in self._numbers:
            self.sources.append(source)
            self._numbers[source] = len(self.sources)
        return self._numbers[source]

    def image(self, name: str) -> Image.Image:
        """Returns an image by its name.

        Raises:
            ValueError: There is none of that name.
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
        """Returns the results of calls as text for the model, sources with their numbers."""
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
