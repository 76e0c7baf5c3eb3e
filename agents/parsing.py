"""Tolerant reading of what models write: thoughts, tags, JSON, tool calls. Nothing here raises on any text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

from agents.state import Call
from llm.replies import ChatReply

_LIMIT = 50_000
"""Characters of a reply that are read."""
_LITERAL_LIMIT = 5_000
"""Characters of an object in Python's form that are read."""
_THOUGHTS = ("think", "thinking", "thought", "reason", "reasoning")
_OPEN_THOUGHT = re.compile(
    rf"<\s*({'|'.join(_THOUGHTS)})\s*>(?:(?!<\s*/\s*\1\s*>).)*(?:<\s*/\s*\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_OPEN_THINK = re.compile(
    r"<\s*(think|thinking)\s*>(?:(?!<\s*/\s*\1\s*>).)*(?:<\s*/\s*\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_FENCED = re.compile(r"```[\w-]*\s*\n?(.*?)(?:```|\Z)", re.DOTALL)
_SPOKEN_CALL = re.compile(r"^\W*tool[ _]call\W*[:\uff1a][\s\"'`*]*([\w.-]+)[\"'`*]*", re.IGNORECASE | re.MULTILINE)
"""`Tool Call: name` with a JSON object below it, as in the transcripts of MMSearch-Plus."""


def without_thoughts(text: str) -> str:
    """Returns a reply without its thoughts; one that is never closed reaches to the end.

    Example:
        >>> without_thoughts("<think>Final Answer: no</think> yes")
        'yes'
    """
    return _OPEN_THOUGHT.sub("", _without_opened(text)).strip()


def without_think(text: str) -> str:
    """Returns a reply without the thoughts of reasoning models, for forms with thoughts of their own."""
    return _OPEN_THINK.sub("", _without_opened(text)).strip()


def _without_opened(text: str) -> str:
    """Returns a reply without the thought that a chat template may open in the prompt."""
    text = text[:_LIMIT]
    closed = re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)
    if len(closed) > 1 and not re.search(r"<think", closed[0], re.IGNORECASE):
        text = text[len(closed[0]) :]
        text = re.sub(r"\A</think(?:ing)?>", "", text, flags=re.IGNORECASE)
    return text


def tagged(text: str, tag: str) -> list[str]:
    """Returns the contents of all elements with a tag; one that is not closed ends at the next, or with the text."""
    opening = rf"<\s*{tag}\s*>"
    found = re.findall(rf"{opening}(.*?)(?=<\s*/\s*{tag}\s*>|{opening}|\Z)", text[:_LIMIT], re.DOTALL | re.IGNORECASE)
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
    rest = re.sub(r"```[\w-]*|</?[a-z_ -]+>", "", rest, flags=re.IGNORECASE)
    return re.sub(r"^[\s*]*(?:final )?answer\s*[:\uff1a][\s*]*", "", rest, flags=re.IGNORECASE).strip() or None


def json_object(text: str) -> dict[str, Any] | None:
    r"""Returns the first JSON object in a text, whatever stands around it; `None` without one.

    An object in Python's form (single quotes, a comma before the bracket) is accepted too. Nothing is executed.

    Example:
        >>> json_object('Here: ```json {"a": 1} ```'), json_object("{'a': [True, null,]}")
        ({'a': 1}, {'a': [True, None]})
    """
    return next((value for value in _values(text, "{") if isinstance(value, dict)), None)


def _values(text: str, brackets: str) -> Iterator[Any]:
    """Yields the JSON values of a text that begin with one of some brackets, one after the other."""
    text = text[:_LIMIT]
    start, tries = 0, 0
    decoder = json.JSONDecoder()
    while tries < 20 and (found := re.compile(f"[{re.escape(brackets)}]").search(text, start)):
        tries += 1
        start = found.start()
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = _literal(text, start)
            if value is None:
                start += 1
                continue
            start = end
        yield value


def _literal(text: str, start: int) -> tuple[Any, int]:
    """Returns a bracketed value in Python's form and its end; `None` if there is none."""
    end = _closing(text, start)
    if end is None:
        return None, start
    source = re.sub(r"\b(?:true|false|null)\b", lambda word: _PYTHON[word[0]], text[start:end])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd escapes
        try:
            return ast.literal_eval(source), end
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return None, start


_PYTHON = {"true": "True", "false": "False", "null": "None"}
_BRACKET_OR_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\[{(]|[\]})]", re.DOTALL)


def _closing(text: str, start: int) -> int | None:
    """Returns where the bracket at `start` is closed, `None` if it is not."""
    depth = 0
    for found in _BRACKET_OR_TEXT.finditer(text, start, start + _LITERAL_LIMIT):
        depth += (found[0] in "[{(") - (found[0] in "]})")
        if depth == 0:
            return found.end()
    return None


def calls_of(reply: ChatReply) -> tuple[tuple[Call, ...], str]:
    """Returns the tool calls of a reply, and what is malformed about one that has the form of a call.

    Accepted are the API's own calls, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, `Tool Call: name` with the
    arguments below it, and such objects, or lists of them, in a fenced block or as the whole reply.
    """
    if reply.calls:
        return tuple(Call(call.name, call.arguments) for call in reply.calls), ""
    text = without_thoughts(reply.text)
    if written := tagged(text, "tool_call"):
        return _all_calls([list(_values(one, "{[")) or [None] for one in written])
    if spoken := list(_SPOKEN_CALL.finditer(text)):
        ends = [one.start() for one in spoken[1:]] + [len(text)]
        return tuple(_spoken(one[1], text[one.end() : end]) for one, end in zip(spoken, ends, strict=True)), ""
    if tagged(text, "answer"):
        return (), ""
    blocks = [text] if re.match(r"\A[\[{]", text) else _FENCED.findall(text)
    values = [list(_values(block, "{[")) or [None] for block in blocks if re.match(r"\s*[\[{]", block)]
    return _all_calls([found for found in values if found == [None] or _looks_like_call(found[0])])


def _spoken(name: str, below: str) -> Call:
    arguments = json_object(below)
    return Call(name, below.strip() if arguments is None and "{" in below else arguments or {})


def _all_calls(written: list[list[Any]]) -> tuple[tuple[Call, ...], str]:
    calls, problem = [], ""
    for values in written:
        for value in _flat(values):
            call = _call(value) if isinstance(value, dict) else None
            if call is None:
                problem = 'a tool call must be <tool_call>{"name": ..., "arguments": {...}}</tool_call>'
            else:
                calls.append(call)
    return tuple(calls), problem


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        inner = value.get("tool_calls") if isinstance(value, dict) else value
        if isinstance(inner, list):
            yield from inner
        else:
            yield value


def _looks_like_call(value: Any) -> bool:
    first = next(_flat([value]), None)
    return isinstance(first, dict) and bool({"name", "tool", "function"} & first.keys())


def _call(value: dict[str, Any]) -> Call | None:
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = value.get("name", value.get("tool", inner))
    arguments = value.get("arguments", value.get("parameters", value.get("args", {})))
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return Call(name, arguments)


def is_true(value: object) -> bool:
    """Returns whether a value of a model's JSON says yes: `true`, or a word for it."""
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "yes"))


_UNKNOWN = re.compile(
    r"\W*(?:unknown|n/?a|(?:i )?(?:do not|don't|cannot|can't) (?:know|tell|answer).*|not (?:known|found|sure)|"
    r"no answer.*|\u672a\u77e5|\u4e0d\u77e5\u9053|\u65e0\u6cd5\u56de\u7b54.*|)\W*",
    re.DOTALL | re.IGNORECASE,
)


def is_abstention(answer: str) -> bool:
    """Returns whether an answer says that there is none.

    Example:
        >>> is_abstention("Unknown."), is_abstention("An unknown soldier")
        (True, False)
    """
    return _UNKNOWN.fullmatch(re.sub(r"\[[\d, ]*\]", "", answer)) is not None
