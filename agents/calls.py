"""Parses tool calls in the forms in which models write them. Never raises on any text, and executes nothing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from agents.parsing import json_object, json_values, literal, tagged, without_thoughts
from agents.state import Call
from agents.tool import plain_name
from llm.replies import ChatReply

_FORM = 'a tool call must be <tool_call>{"name": ..., "arguments": {...}}</tool_call>'
_LONGEST_CALL = 5_000
"""Maximum characters of a call in Python syntax."""
_FENCED = re.compile(r"(?:```[\w-]*[ \t]*\n?|<code>)(.*?)(?:```|</code>|\Z)", re.DOTALL)
_MARK = re.compile(r"<\|[\w/ ]{1,40}\|>|\[/?TOOL_CALLS?\]")
"""Special tokens of chat templates."""
_QUOTE = re.compile(r"<\|\"\|>|<escape>|</escape>")
"""A quotation mark in the templates of Gemma."""
_NAME = r"[\w.-]{1,64}"
_END = r"(?=<\||<\uff5c|```|\[TOOL_CALLS\]|<end_function_call>|<tool_call\|>|\Z)"
_OF_TEMPLATES = re.compile(
    "|".join(
        (
            # of Mistral, DeepSeek V3 and V3.1, Harmony, Kimi, Gemma
            rf"(?:\[TOOL_CALLS\]\s{{0,9}})?(?<![\w.-])({_NAME})(?:\[CALL_ID\]\w{{1,64}})?\[ARGS\]\s*(\{{.*?){_END}",
            rf"<\uff5ctool\u2581sep\uff5c>\s*({_NAME})\s*(?:```\w*)?\s*(\{{.*?){_END}",
            rf"<\uff5ctool\u2581call\u2581begin\uff5c>\s*({_NAME})\s*<\uff5ctool\u2581sep\uff5c>\s*(\{{.*?){_END}",
            rf"to=(?:functions\.)?({_NAME})[^{{}}]{{0,200}}?<\|message\|>(\{{.*?){_END}",
            rf"<\|tool_call_begin\|>\s*({_NAME})(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*(\{{.*?){_END}",
            rf"(?:<\|tool_call>|<start_function_call>)\s*call:\s*({_NAME})\s*(\{{.*?){_END}",
        )
    ),
    re.DOTALL,
)
"""Calls in chat templates with a name and arguments, which servers without a parser return as text."""
_NAMED = re.compile(r"<\s*(?:tool_)?name\s*>\s*([\w.-]+)\s*<\s*/\s*(?:tool_)?name\s*>", re.IGNORECASE)
_SPOKEN = re.compile(r"^[^\w\n]*tool[ _]call\W*[:\uff1a][\s\"'`*]*([\w.-]+)[\"'`*]*", re.IGNORECASE | re.MULTILINE)
"""`Tool Call: name` followed by a JSON object, as in the transcripts of MMSearch-Plus."""
_ACTION = re.compile(
    r"^[ \t*]*action[ \t*]*:(?![ \t]*```)[ \t*`\"]*([\w.-]+)[`\"*]*(?:\s*(action input)[\s*]*:)?", re.I | re.M
)
"""`Action: name` followed by `Action Input: {...}`."""
_ELEMENT = re.compile(
    r"<\s*(?:function\s*=\s*|invoke\s+name\s*=\s*|function\s+name\s*=\s*)[\"']?([\w.-]+)[\"']?\s*>(.*?)"
    r"(?=<\s*/\s*(?:function|invoke)\s*>|<\s*(?:function|invoke)[\s=]|<\s*/?\s*tool_call|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""`<function=name>` and `<invoke name="name">`, with parameters as elements or as a JSON object."""
_PARAMETER = re.compile(
    r"<\s*parameter\s*(?:=|\s+name\s*=)\s*[\"']?([\w.-]+)[\"']?[^<>]*>(.*?)"
    r"(?=<\s*/?\s*parameter\b|\Z)",
    re.DOTALL | re.I,
)
_KEY = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL | re.IGNORECASE)
_NAME_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "action_input", "input", "tool_input")
_LIST_KEYS = ("tool_calls", "tool_uses", "function_calls", "calls", "actions")
_OTHER_KEYS = ("id", "type", "tool_call_id")


def calls_of(reply: ChatReply, names: Collection[str] = ()) -> tuple[tuple[Call, ...], str]:
    """Returns the tool calls of a reply, and a message if something that looks like a call is malformed.

    Accepts the API's own calls, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, `Tool Call: name` or
    `Action: name` followed by the arguments, elements (`<function=name>`, `<invoke name="name">`), and, in a fenced
    block or as the whole reply, JSON objects, lists of them, and calls in Python syntax.

    Args:
        reply: The reply.
        names: The names of the tools, for forms that could be something else: `name(query="…")` and `<name>`.
    """
    if reply.calls:
        return tuple(Call(call.name, call.arguments) for call in reply.calls), ""
    said = without_thoughts(reply.text)
    calls, problem = _calls_in(said, names)
    if calls or problem or tagged(said, "answer"):
        return calls, problem
    for text in (said, reply.text if not said else "", reply.thoughts):  # some models close their thoughts too late
        if late := _calls_in(text, names)[0] or _anywhere(text, names):
            return late, ""
    return (), ""


def _calls_in(text: str, names: Collection[str]) -> tuple[tuple[Call, ...], str]:
    """Returns the calls in a text that are written as such."""
    text = _OF_TEMPLATES.sub(_of_template, _QUOTE.sub('"', text.replace("\uff5cDSML\uff5c", "")))
    text = _MARK.sub(" ", text).strip()
    if (written := _tool_calls(text)) and (tagged_calls := _all(written, names)) != ((), ""):
        return tagged_calls
    if elements := _ELEMENT.findall(text):
        return tuple(Call(name, _arguments(content)) for name, content in elements), ""
    for form in (_SPOKEN, _ACTION):
        if spoken := list(form.finditer(text)):
            ends = [one.start() for one in spoken[1:]] + [len(text)]
            return tuple(_spoken(one, text[one.end() : end], names) for one, end in zip(spoken, ends, strict=True)), ""
    if tagged(text, "answer"):
        return (), ""
    named = [(name, content) for name in names for content in tagged(text, re.escape(name))]
    if named:
        return tuple(Call(name, _arguments(content, "queries")) for name, content in named), ""
    blocks = [text] if _is_json(text) else _FENCED.findall(text)
    found, problem = _all([block for block in blocks if _has_calls(block)], names)
    if found or problem:
        return found, problem
    return tuple(call for block in dict.fromkeys([text, *blocks]) for call in _python(block, names)), ""


def _anywhere(text: str, names: Collection[str]) -> tuple[Call, ...]:
    """Returns the JSON objects and lines of Python amid other text that call known tools."""
    written = (_call(value, names) for value in _flat(json_values(text, "{[")))
    known = [call for call in written if call is not None and plain_name(call.tool, names) in names]
    return tuple(known) or tuple(call for line in text.splitlines() for call in _python(line.strip(" `*->"), names))


def _of_template(found: re.Match[str]) -> str:
    name, arguments = (part for part in found.groups() if part is not None)
    return f"<tool_call>{name}{arguments}</tool_call>"


def _tool_calls(text: str) -> list[str]:
    """Returns the contents of the `<tool_call>` elements, preceded by the name if the tag has one."""
    written = tagged(text, "tool_call")
    attributes = re.findall(r"<\s*tool_call(?:\s+name\s*=\s*[\"']?([\w.-]+)[\"']?)?(?:\s[^<>]*)?>", text, re.I)
    pairs = zip(attributes, written, strict=False)
    return [f"<function={name}>{content}" if name else content for name, content in pairs]


def _all(written: list[str], names: Collection[str]) -> tuple[tuple[Call, ...], str]:
    calls, problem = [], ""
    for text in written:
        found = list(_read(text, names))
        calls += [call for call in found if call is not None]
        if not found or None in found:
            problem = _FORM
    return tuple(calls), problem


def _read(text: str, names: Collection[str]) -> Iterator[Call | None]:
    """Yields the calls in a text that should contain nothing else; `None` for anything else."""
    if elements := _ELEMENT.findall(text):
        yield from (Call(name, _arguments(content)) for name, content in elements)
    elif (named := _NAMED.search(text)) is not None:
        yield Call(named[1], _arguments(text[named.end() :]))
    elif pairs := _KEY.findall(text):
        name = re.match(r"\s*([\w.-]+)", text)
        yield None if name is None else Call(name[1], {key.strip(): _value(value) for key, value in pairs})
    elif python := _python(text, names):
        yield from python
    elif re.match(r"\s*[\w.-]+\s*\{", text):  # name{"queries": …}
        name_, _, rest = text.partition("{")
        yield Call(name_.strip(), _arguments("{" + rest))
    else:
        yield from (_call(value, names) for value in _flat(json_values(text, "{[")))


def _is_json(text: str) -> bool:
    return re.match(r"\s*(?:\{|\[\s*(?:[\[{\"\'\]]|\Z))", text) is not None


def _has_calls(block: str) -> bool:
    """Returns whether a block is JSON that contains a call, or malformed JSON."""
    if not _is_json(block):
        return False
    values = list(_flat(json_values(block, "{[")))
    return not values or any(isinstance(value, dict) and set(_NAME_KEYS) & value.keys() for value in values[:1])


def _flat(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        inner = next((value[key] for key in _LIST_KEYS if key in value), None) if isinstance(value, dict) else value
        if isinstance(inner, list):
            yield from inner
        else:
            yield value


def _call(value: Any, names: Collection[str]) -> Call | None:
    if not isinstance(value, dict):
        return None
    value = next((value[key] for key in ("function", "action", "tool") if isinstance(value.get(key), dict)), value)
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    if name is None and len(value) == 1 and (only := next(iter(value))) in names:
        return Call(only, value[only]) if isinstance(value[only], dict) else None
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if arguments is None:
        arguments = {key: value[key] for key in value if key not in (*_NAME_KEYS, *_ARGUMENT_KEYS, *_OTHER_KEYS)}
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return Call(name, arguments)


def _spoken(name: re.Match[str], below: str, names: Collection[str]) -> Call:
    first = below.strip().partition("\n")[0].strip()
    if first.startswith("(") and (calls := _python(name[1] + first, names)) and isinstance(calls[0].arguments, dict):
        return calls[0]
    if first.startswith("[") and first.endswith("]"):  # name[a query]
        listed = _value(first)
        return Call(name[1], {"queries": listed if isinstance(listed, list) else [first[1:-1].strip()]})
    arguments = json_object(below)
    if arguments is None and name.re is _ACTION and name[2] and first and "{" not in below:
        return Call(name[1], first)  # the text of its only argument
    return Call(name[1], below.strip() if arguments is None and "{" in below else arguments or {})


def _arguments(content: str, only: str = "") -> dict[str, Any] | str:
    """Returns the arguments in an element: parameters, a JSON object, or a plain text for the argument `only`."""
    if parameters := _PARAMETER.findall(content):
        return {key: _value(value) for key, value in parameters}
    found = json_object(content)
    if found is not None or "{" in content:
        return found or content.strip()
    return {only: _value(content)} if only and content.strip() else {}


def _value(text: str) -> Any:
    """Returns the JSON value that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def _python(text: str, names: Collection[str]) -> list[Call]:
    """Returns the calls of a text that is nothing but calls of known tools, such as `[text_search(queries=["a"])]`."""
    if (
        not names
        or len(text) > _LONGEST_CALL
        or not re.search(rf"\b(?:{'|'.join(map(re.escape, names))})(?:\.call)?\s*\(", text)
    ):
        return []
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    nodes = [node.value for node in body if isinstance(node, ast.Expr | ast.Assign)]
    nodes = [one for node in nodes for one in (node.elts if isinstance(node, ast.List | ast.Tuple) else [node])]
    return [call for node in nodes if (call := _python_call(node, names)) is not None]


def _python_call(node: ast.expr, names: Collection[str]) -> Call | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1:
        return _python_call(node.args[0], names)
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr == "call":  # text_search.call(…), as in Llama 3's template
        function = function.value
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in names:
        return None
    try:
        values = {one.arg: literal(one.value) for one in node.keywords if one.arg is not None}
        given = [literal(one) for one in node.args]
    except ValueError:
        return None
    return Call(name, json.dumps(given) if given and not values else values)
