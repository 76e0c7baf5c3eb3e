"""Replies of chat servers: the text, tool calls and usage of a completion, and the message of an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ESCAPED_SURROGATE = re.compile(
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it; `arguments` is text that should be a JSON object."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A reply.

    Attributes:
        text: The model's text, without reasoning.
        calls: The tools it calls.
        prompt_tokens: As counted by the server; `None` if it does not report them.
        completion_tokens: As counted by the server; `None` if it does not report them.
        cut: Whether the reply was cut at its maximum length, perhaps before the model had written any text.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cut: bool = False


@dataclass(slots=True)
class Usage:
    """The token counts of a request, and whether the answer reached its maximum.

    Attributes:
        prompt_tokens: As counted by the server; `None` if it does not report them.
        completion_tokens: As counted by the server; `None` if it does not report them.
        cut: Whether the answer was cut at its maximum length, perhaps before the model had written any text.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cut: bool = False

    def read(self, body: Mapping[str, Any]) -> None:
        """Reads the token counts from a chat completion, or from the event of a stream that has them."""
        if isinstance(usage := body.get("usage"), dict):
            self.prompt_tokens = _count(usage, "prompt_tokens")
            self.completion_tokens = _count(usage, "completion_tokens")


def read_reply(body: Mapping[str, Any]) -> ChatReply:
    """Reads the first choice of a chat completion.

    Raises:
        LookupError, TypeError, AttributeError: The body is not a chat completion.
    """
    choice = body["choices"][0]
    message, usage = choice["message"], body.get("usage") or {}
    called = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    ids = [str(call.get("id") or "") for call in message.get("tool_calls") or ()]
    if not called and message.get("function_call"):  # the older API, before tool calls
        called, ids = [message["function_call"]], [""]
    calls = tuple(
        ToolCall(_cleaned(str(function.get("name") or "")), _text(function.get("arguments")), id_)
        for function, id_ in zip(called, ids, strict=True)
    )
    return ChatReply(
        _written(message.get("content")),
        calls,
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        choice.get("finish_reason") == "length",
    )


def well_formed(text: str) -> str:
    r"""Replaces unpaired surrogates with U+FFFD: JSON can spell them, but UTF-8 cannot encode them.

    Example:
        >>> well_formed("cut in an emoji: \ud83d") == "cut in an emoji: \ufffd"
        True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _cleaned(text: str) -> str:
    """Replaces unpaired surrogates like `well_formed`, including escaped ones in JSON within the text."""
    return well_formed(_ESCAPED_SURROGATE.sub(lambda found: found[1] or "\\ufffd", text))


def _written(content: object) -> str:
    """Returns the text of a message; some servers send a list of parts."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return _cleaned(str(content or ""))


def _text(arguments: object) -> str:
    """Returns arguments as text; some servers send the parsed object instead."""
    return _cleaned(arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False))


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    count = usage.get(name)
    return count if isinstance(count, int) and count >= 0 else None


def has_reasoning(message: dict[str, Any]) -> bool:
    """Returns whether a message has reasoning, in `reasoning` (Ollama) or `reasoning_content` (vLLM, llama.cpp)."""
    return bool(message.get("reasoning") or message.get("reasoning_content"))


def error_message(body: str) -> str:
    """Returns the message of an error in any server's format, or else the body, shortened."""
    try:
        value = json.loads(body)
    except ValueError:
        return shortened(body)
    for key in ("error", "message"):
        value = value.get(key, value) if isinstance(value, dict) else value
    return shortened(value if isinstance(value, str) else body)


def shortened(text: str) -> str:
    """Returns a text as a single line, cut to 300 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:299] + "…"
