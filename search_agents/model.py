"""The chat model that plans, on any OpenAI-compatible server, within the budget and the model's context."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message, with_text, without_calls
from chat_models.replies import ChatReply
from chat_models.thoughts import THINK
from search_agents.context import count_images, fitted, newest_images, tokens_of, without_images

logger = logging.getLogger(__name__)

Tools = Sequence[Mapping[str, Any]]
"""Tools in the form of the chat API."""
Schema = Mapping[str, Any] | None
"""The JSON schema of a reply, if it has one."""
REASONING_TOKENS = 4096
"""Maximum tokens of a reply after a shorter one was spent on reasoning alone."""
_SHORTENED = 3
"""How often a conversation is shortened if the server rejects it as too long."""
_REFUSED = (400, 404, 413, 415, 422, 501)
"""Statuses of requests that have something a server does not take."""
_NAMES = {
    "schema": re.compile(r"response_?format|schema|structured|guided|grammar", re.IGNORECASE),
    "tools": re.compile(r"tool|function", re.IGNORECASE),
    "images": re.compile(r"image|vision|multi-?modal|picture|content part|must be a string", re.IGNORECASE),
}
"""Patterns of error messages, by the feature that the server rejects."""
_NO_IMAGES = re.compile(
    r"(?:not|n't|no|unsupported)\b.{0,40}(?:images?|vision|multi-?modal)\b(?!.*\d)|must be a string|text[- ]only"
    r"|\b(?:images?|image_url|vision|multi-?modal)\b(?: (?:inputs?|contents?|parts?|data|understanding))?"
    r" (?:is|are|was|were) (?:not|un|n't) ?(?:supported|enabled|accepted)|missing data required for image"
    r"|(?:unknown|unrecognized|unexpected|unsupported|invalid)\b.{0,40}image_url",
    re.IGNORECASE,
)
"""How servers say that a model takes no images at all."""
_MOST_IMAGES = re.compile(r"(?:at most|up to|max(?:imum)?|limit|only)\b\D{0,40}(\d{1,4})", re.IGNORECASE)
"""How servers say how many images they take."""


class Planner(Protocol):
    """A chat model that may call tools."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def reply(self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema) -> ChatReply:
        """Returns the model's reply; servers that do not support `tools` or `schema` ignore them."""

    async def aclose(self) -> None:
        """Closes the connections."""


class ChatPlanner:
    """A `Planner` that uses a chat client.

    A refusal belongs to its request: that request gives up what it has too much of (results if it is too long, the
    oldest images, then structured outputs, tools and the last image), and the next one is asked with all of it again.
    Only what a server says that it cannot do is not tried again. Tools that are refused are described in the text.
    """

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._lacking: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    async def reply(self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema) -> ChatReply:
        """Returns the model's reply, with what it was asked without.

        Raises:
            ChatError: The server failed.
        """
        refused, named = self._lacking, frozenset[str]()
        given = count_images(messages)
        called = any(message.get("tool_calls") for message in messages)
        used = {"schema": schema is not None, "tools": bool(tools) or called, "images": given > 0}
        shortened = 0
        while True:
            try:
                reply = await self._send(messages, max_tokens, tools, schema, refused)
                break
            except ChatError as error:
                if error.status not in _REFUSED and not error.unsupported:
                    raise
                left = [name for name, needed in used.items() if needed and name not in refused]
                images = 0 if "images" in refused else count_images(messages)
                feature = next((name for name in left if _NAMES[name].search(error.message)), None)
                if error.too_long and shortened < _SHORTENED and (shorter := _shorter(messages)) != messages:
                    messages, shortened = shorter, shortened + 1
                elif images > 1 and feature in (None, "images") and not _NO_IMAGES.search(error.message):
                    messages = newest_images(messages, _most_images(error.message, images))
                elif left:
                    refused |= {feature or left[0]}
                    lasting = _NO_IMAGES.search(error.message) if feature == "images" else feature != "tools" or tools
                    if feature and lasting:
                        named |= {feature}
                else:
                    raise
        if new := sorted(named - self._lacking):
            logger.warning("%s takes no %s and is asked without them from now on", self.name, ", ".join(new))
        self._lacking |= named
        return replace(reply, without=tuple(_missing(given, messages, "images" in refused and given > 0, shortened)))

    async def aclose(self) -> None:
        """Closes the client."""
        await self._client.aclose()

    async def _send(
        self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema, refused: frozenset[str]
    ) -> ChatReply:
        fields: dict[str, Any] = {}
        if tools and "tools" not in refused:
            fields["tools"] = list(tools)
        elif tools:
            messages = [_with_tools(messages[0], tools), *messages[1:]]
        if "tools" in refused:
            messages = without_calls(messages)
        if schema is not None and "schema" not in refused:
            fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": dict(schema)},
            }
        if "images" in refused:
            messages = [without_images(message) for message in messages]
        return await self._client.converse(messages, max_tokens, tags=THINK, **fields)


def _shorter(messages: Sequence[Message]) -> list[Message]:
    """Returns a conversation with fewer tokens, or the same if nothing is left to drop."""
    before = tokens_of(messages)
    fitting = fitted(messages, before * 3 // 5)
    return fitting if tokens_of(fitting) < before else list(messages)


def _most_images(message: str, images: int) -> int:
    """Returns the number of images that a server takes, by its message, or else one less than it was given."""
    found = _MOST_IMAGES.search(message)
    most = int(found[1]) if found else images - 1
    return max(1, min(most, images - 1))


def _missing(given: int, messages: Sequence[Message], no_images: bool, shortened: int) -> Iterator[str]:
    """Yields what the model was asked without, in words."""
    kept = 0 if no_images else count_images(messages)
    if kept < given:
        yield f"{given - kept} of {given} images"
    if shortened:
        yield "older results"


def _with_tools(message: Message, tools: Tools) -> Message:
    """Appends a description of tools to a message."""
    described = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    return with_text(message, f"The tools:\n{described}")
