"""The plain records of a run: sources, calls, observations, rounds and decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image

from chat_models.messages import harmless, harmless_source
from chat_models.replies import Ending
from retriever.trail_views import SourceOut

IMAGE = "image"
"""The name of the image that the question is about."""


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


def heading_of(source: Source | SourceOut) -> str:
    """Returns the title, followed by the section's if there is one."""
    return f"{source.title}, {source.section}" if source.section else source.title


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.

    Attributes:
        tool: The tool's name.
        arguments: A JSON object, or the text that should have been one.
        place: The position of the API's own call in the reply; `None` for a call in the text.
    """

    tool: str
    arguments: Mapping[str, Any] | str
    place: int | None = field(default=None, compare=False)


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
        may_keep: Whether it may be kept for other runs.
    """

    sources: tuple[Source, ...] = ()
    text: str = ""
    images: Mapping[str, Image.Image] = field(default_factory=dict)
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answer: str | None = None
    error: str = ""
    complete: bool = True
    may_keep: bool = True


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
    """A request to the model: its purpose, tokens, milliseconds and price, how the reply ended, and what it lacked.

    `model` is the name in the reply if it is another one than was asked.
    """

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    ms: float
    money: float
    ending: Ending = "complete"
    without: tuple[str, ...] = ()
    model: str = ""


@dataclass(slots=True)
class Round:
    """A round: the policy's thought, the tools it called, and what was malformed in the model's reply."""

    number: int
    thought: str = ""
    requests: list[RequestRecord] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    problem: str = ""

    @property
    def ms(self) -> float:
        """Its duration in milliseconds: of all requests, and of the slowest call."""
        waited = max((record.ms for record in self.calls if not record.cached), default=0.0)
        return round(sum(request.ms for request in self.requests) + waited, 1)


def without_of(rounds: Iterable[Round]) -> tuple[str, ...]:
    """Returns the parts that some request of the rounds was sent without, each once."""
    asked = (request for one in rounds for request in one.requests)
    return tuple(dict.fromkeys(part for request in asked for part in request.without))


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


def digest_of(image: Image.Image) -> str:
    """Returns a hash of an image's size and pixels."""
    return hashlib.sha256(f"{image.mode} {image.size} ".encode() + image.tobytes()).hexdigest()[:32]
