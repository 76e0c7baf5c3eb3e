"""Tolerant reading of what models write: thoughts, tags, JSON, tool calls. Nothing here raises on any text."""

from __future__ import annotations

import json
import re
from typing import Any

from agents.state import Call
from llm.replies import ChatReply

_LIMIT = 50_000
"""Characters of a reply that are read."""
_THOUGHTS = ("think", "thinking", "thought", "reason", "reasoning")
_OPEN_THOUGHT = re.compile(rf"<({'|'.join(_THOUGHTS)})>(?:(?!</\1>).)*(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Returns a reply without its thoughts; one that is never closed reaches to the end.

    Example:
        >>> without_thoughts("<think>Final Answer: no</think> yes")
        'yes'
    """
    text = text[:_LIMIT]
    closed = re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)
    if len(closed) > 1 and not re.search(r"<think", closed[0], re.IGNORECASE):
        text = text[len(closed[0]) :]  # chat templates may open the thought in the prompt
        text = re.sub(r"\A</think(?:ing)?>", "", text, flags=re.IGNORECASE)
    return _OPEN_THOUGHT.sub("", text).strip()


def tagged(text: str, tag: str) -> list[str]:
    """Returns the contents of all elements with a tag; one that is not closed ends at the next, or with the text."""
    found = re.findall(rf"<{tag}>(.*?)(?=</{tag}>|<{tag}>|\Z)", text[:_LIMIT], re.DOTALL | re.IGNORECASE)
    return [content.strip() for content in found]


def answer_of(text: str) -> str | None:
    """Returns the content of the last `<answer>` outside of thoughts, `None` without one."""
    found = [content for content in tagged(without_thoughts(text), "answer") if content]
    return found[-1] if found else None


def plain_answer(text: str) -> str | None:
    """Returns the answer of a reply that should be nothing else: `<answer>`, or all but thoughts and calls."""
    if (answer := answer_of(text)) is not None:
        return answer
    rest = re.sub(r"<tool_call>.*?(?:</tool_call>|\Z)", "", without_thoughts(text), flags=re.DOTALL | re.IGNORECASE)
    rest = re.sub(r"</?[a-z_ -]+>", "", rest, flags=re.IGNORECASE)
    return re.sub(r"^\s*(?:final )?answer\s*:\s*", "", rest, flags=re.IGNORECASE).strip() or None


def json_object(text: str) -> dict[str, Any] | None:
    r"""Returns the first JSON object in a text, whatever stands around it; `None` without one.

    Example:
        >>> json_object('Here: ```json {"a": 1} ```')
        {'a': 1}
    """
    decoder, start = json.JSONDecoder(), -1
    for _ in range(20):
        start = text.find("{", start + 1, _LIMIT)
        if start < 0:
            return None
        try:
            value, _end = decoder.raw_decode(text[:_LIMIT], start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def calls_of(reply: ChatReply) -> tuple[tuple[Call, ...], str]:
    """Returns the tool calls of a reply, and what is malformed about one that has the form of a call.

    Accepted are the API's own calls, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, and a reply that is
    nothing but such an object.
    """
    if reply.calls:
        return tuple(Call(call.name, call.arguments) for call in reply.calls), ""
    text = without_thoughts(reply.text)
    written = tagged(text, "tool_call")
    if not written and re.match(r"\A(?:```(?:json)?\s*)?\{", text):
        value = json_object(text)
        written = [text] if value is None or {"name", "tool", "function"} & value.keys() else []
    calls, problem = [], ""
    for one in written:
        value = json_object(one)
        call = None if value is None else _call(value)
        if call is None:
            problem = 'a tool call must be <tool_call>{"name": ..., "arguments": {...}}</tool_call>'
        else:
            calls.append(call)
    return tuple(calls), problem


def _call(value: dict[str, Any]) -> Call | None:
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = value.get("name", value.get("tool", inner))
    arguments = value.get("arguments", value.get("parameters", value.get("args", {})))
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return Call(name, arguments)


_UNKNOWN = re.compile(
    r"\W*(?:unknown|n/?a|(?:i )?(?:do not|don't|cannot|can't) (?:know|tell|answer).*|not (?:known|found|sure)|"
    r"no answer.*|)\W*",
    re.DOTALL | re.IGNORECASE,
)


def is_abstention(answer: str) -> bool:
    """Returns whether an answer says that there is none.

    Example:
        >>> is_abstention("Unknown."), is_abstention("An unknown soldier")
        (True, False)
    """
    return _UNKNOWN.fullmatch(re.sub(r"\[[\d, ]*\]", "", answer)) is not None
