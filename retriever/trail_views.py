"""The trail of an agent's run and its steps, as they are written and sent; read from the records of the run by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BeforeValidator, ConfigDict, Field

from retriever.views import View


class _TrailPart(View):
    model_config = ConfigDict(extra="forbid")


def _from(*path: str) -> Any:
    """Returns a field that a record has at a path of attributes."""
    return Field(validation_alias=AliasChoices(path[-1], AliasPath(*path)))


def _object(arguments: object) -> object:
    """Returns the arguments of a call: a JSON object, or the text that should have been one."""
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        values = None
    return dict(values) if isinstance(values, Mapping) else str(arguments)


class _InRound(_TrailPart):
    round: int


class ClaimOut(_TrailPart):
    """A sentence of the answer."""

    text: str
    sources: list[int]
    """Numbers of the sources it cites."""


class SourceOut(_TrailPart):
    """An excerpt that a tool found."""

    number: int
    title: str
    text: str
    url: str
    """A URL, or an entity's id."""
    section: str
    span: tuple[int, int] | None
    """Start and end of the excerpt in the section or page, in Unicode characters."""
    related: str
    """How well the found image matches the one searched for; empty without an image search."""


class AgentCallOut(_TrailPart):
    """A call of a tool."""

    tool: str = _from("call", "tool")
    arguments: Annotated[dict[str, Any] | str, BeforeValidator(_object)] = _from("call", "arguments")
    """A JSON object, or the text that should have been one."""


class CallOut(AgentCallOut):
    """A call of a tool with its result."""

    sources: list[int] = Field(validation_alias=AliasChoices("sources", "numbers"))
    """Numbers of the sources it found."""
    images: Annotated[list[str], BeforeValidator(list)] = _from("observation", "images")
    """Names of the images it made."""
    text: str = _from("observation", "text")
    error: str = _from("observation", "error")
    """What was wrong with the call, or why it failed."""
    cached: bool
    cost: float
    ms: float


class ModelRequestOut(_TrailPart):
    """A request to the chat model."""

    purpose: str
    prompt_tokens: int
    completion_tokens: int
    ms: float
    money: float
    ending: str = "complete"
    """How the reply ended: `complete`, `cut` at its maximum length, `refused` or `filtered`."""
    without: tuple[str, ...] = ()
    """What the model was asked without, because its server refused it, or perhaps cut it in silence."""
    model: str = ""
    """The model's name in the reply, if it is another one than was asked."""


class RoundOut(_TrailPart):
    """A decision, and the calls that came of it."""

    number: int
    thought: str
    problem: str
    """What was malformed in the model's reply."""
    requests: list[ModelRequestOut]
    calls: list[CallOut]
    ms: float


class SpentOut(_TrailPart):
    """What a run took."""

    tokens: int
    money: float
    calls: dict[str, int]
    """Calls per tool."""
    ms: float


class TrailOut(_TrailPart):
    """How an agent came to its answer."""

    question: str
    policy: str
    answer: str | None
    abstained: bool
    stopped: str
    """The limit or failure that ended the run early: `rounds`, `tokens`, `seconds`, `money`, `malformed replies` or
    `the model failed`; empty if the policy ended it."""
    failure: str
    """Why the model failed."""
    claims: list[ClaimOut]
    invented_citations: list[int]
    """Cited numbers that no source has."""
    without: list[str]
    """What the model was asked without at some request, because its server refused it, such as `1 of 2 images`."""
    sources: list[SourceOut]
    rounds: list[RoundOut]
    malformed: int
    """Malformed replies and calls."""
    spent: SpentOut


class RequestStep(ModelRequestOut, _InRound):
    """The event `request`: the model has replied."""


class RoundStep(_InRound):
    """The event `round`: the policy has decided; its calls are running."""

    thought: str
    problem: str
    calls: list[AgentCallOut]


class _AtPlace(_InRound):
    position: int
    """Its place among the round's calls, from 0."""


class CallStep(CallOut, _AtPlace):
    """The event `call`: a call has ended."""

    found: list[SourceOut]
    """Its sources in full."""
    thumbnails: dict[str, str]
    """Small images as data URIs: the new ones by name, or the `part` of an image that the call looked at."""


Watch = Callable[[str, Mapping[str, Any]], None]
"""A callback for the steps of a run as they happen: their names (`request`, `round`, `call`) and JSON values."""
