"""The model that plans: behind any OpenAI-compatible server, within the budget and its context."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from agents.corpus import Corpus, decode_reply, encode_reply, timed
from agents.state import AgentRun, RequestRecord
from agents.tool import Tool
from llm.chat import ChatClient, ChatError
from llm.context import CHARACTERS_PER_TOKEN
from llm.messages import Message
from llm.replies import ChatReply

IMAGE_TOKENS = 1000
"""Assumed tokens of an image."""
_LEFT_OUT = "(left out to save space)"
_REFUSED = (400, 404, 422, 501)
"""Statuses of servers that do not know tool calls or structured outputs."""


class Planner(Protocol):
    """A chat model that may call tools."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def reply(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]],
        schema: Mapping[str, Any] | None,
    ) -> ChatReply:
        """Returns the model's reply; `tools` and `schema` are ignored by servers that do not know them."""

    async def aclose(self) -> None:
        """Closes the connections."""


class ChatPlanner:
    """A `Planner` on a chat client.

    A server that refuses tools or a schema is asked again without them, and no more with them.

    Args:
        client: The client of the model.
    """

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._plain = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self._client.model

    async def reply(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        tools: Sequence[Mapping[str, Any]],
        schema: Mapping[str, Any] | None,
    ) -> ChatReply:
        """Returns the model's reply.

        Raises:
            ChatError: The server failed.
        """
        fields: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if schema is not None:
            format_ = {"name": "reply", "schema": dict(schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": format_}
        if fields and not self._plain:
            try:
                return await self._client.converse(messages, max_tokens, **fields)
            except ChatError as error:
                if error.status not in _REFUSED:
                    raise
        reply = await self._client.converse(messages, max_tokens)
        self._plain = self._plain or bool(fields)
        return reply

    async def aclose(self) -> None:
        """Closes the client."""
        await self._client.aclose()


class Asking:
    """Sends a run's requests to a planner: checks the budget, counts, records or replays.

    Args:
        planner: The model.
        context_tokens: The model's context.
        corpus: Where replies are recorded or replayed.
    """

    def __init__(self, planner: Planner, context_tokens: int = 16_384, corpus: Corpus | None = None) -> None:
        self._planner, self._context_tokens, self._corpus = planner, context_tokens, corpus

    async def ask(
        self,
        run: AgentRun,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[Tool],
        schema: Mapping[str, Any] | None,
    ) -> ChatReply:
        """See `AgentRun.ask`."""
        schemas = [tool.schema() for tool in tools]
        extra = _tokens_of(json.dumps([schemas, schema]))
        fitting = fitted(messages, self._context_tokens - max_tokens - extra)
        estimate = tokens_of(fitting) + extra
        run.spending.check_request(estimate, max_tokens)

        async def make() -> ChatReply:
            return await self._planner.reply(fitting, max_tokens, schemas, schema)

        if self._corpus is None:
            reply, ms = await timed(make)
        else:
            key = json.dumps([self._planner.name, fitting, max_tokens, schemas, schema], sort_keys=True)
            reply, ms = await self._corpus.get("model", key, make, encode_reply, decode_reply)
        written = _tokens_of(reply.text + "".join(call.name + call.arguments for call in reply.calls))
        prompt = estimate if reply.prompt_tokens is None else reply.prompt_tokens
        completion = written if reply.completion_tokens is None else reply.completion_tokens
        run.spending.add_request(prompt, completion)
        money = run.spending.budget.price(prompt, completion)
        run.add_request(RequestRecord(purpose, prompt, completion, ms, money))
        return replace(reply, prompt_tokens=prompt, completion_tokens=completion)


def tokens_of(messages: Sequence[Message]) -> int:
    """Estimates the tokens of messages."""
    return sum(_message_tokens(message) for message in messages)


def fitted(messages: Sequence[Message], max_tokens: int) -> list[Message]:
    """Returns messages that fit a context: the oldest between the question and the last message lose their text first.

    The system message and the question are kept whole as long as anything else can go; at last the end of the last
    message is cut, then images from the end, then the end of the question.
    """
    fitting = list(messages)
    over = tokens_of(fitting) - max_tokens
    first = next((at for at, message in enumerate(fitting) if message["role"] != "system"), 0)
    for at in range(first + 1, len(fitting) - 1):
        if over <= 0:
            break
        over -= _message_tokens(fitting[at])
        fitting[at] = {**fitting[at], "content": _LEFT_OUT}
        over += _message_tokens(fitting[at])
    for at in dict.fromkeys((len(fitting) - 1, first)):
        if over > 0:
            before = _message_tokens(fitting[at])
            fitting[at] = _cut(fitting[at], before - over)
            over -= before - _message_tokens(fitting[at])
    return fitting


def _cut(message: Message, limit: int) -> Message:
    """Cuts a message to so many tokens: the end of its longest text, then images from the end, all but the first."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    texts = [at for at, part in enumerate(parts) if part["type"] == "text"]
    if texts:
        longest = max(texts, key=lambda at: len(parts[at]["text"]))
        text = parts[longest]["text"]
        left = limit - sum(_part_tokens(part) for at, part in enumerate(parts) if at != longest)
        parts[longest] = {**parts[longest], "text": _beginning(text, left - _tokens_of(_LEFT_OUT)) + _LEFT_OUT}
    images = [at for at, part in enumerate(parts) if part["type"] != "text"]
    while len(images) > 1 and sum(map(_part_tokens, parts)) > limit:
        del parts[images.pop()]
    return {**message, "content": parts[0]["text"] if isinstance(content, str) else parts}


def _beginning(text: str, tokens: int) -> str:
    """Returns the longest beginning of a text within so many tokens."""
    length = bisect_right(range(1, len(text) + 1), tokens, key=lambda end: _tokens_of(text[:end]))
    return text[:length]


def _message_tokens(message: Message) -> int:
    content = message["content"]
    calls = sum(_tokens_of(json.dumps(call)) for call in message.get("tool_calls", ()))
    return calls + (_tokens_of(content) if isinstance(content, str) else sum(map(_part_tokens, content)))


def _part_tokens(part: Message) -> int:
    return _tokens_of(part["text"]) if part["type"] == "text" else IMAGE_TOKENS


def _tokens_of(text: str) -> int:
    """Estimates the tokens of a text: one for four ASCII characters, and one for any other, such as a Chinese one."""
    ascii_ = len(text.encode("ascii", "ignore"))
    return len(text) - ascii_ + ascii_ // CHARACTERS_PER_TOKEN + 1
