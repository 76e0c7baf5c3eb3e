"""Parses tool calls in the forms in which models write them. Never raises on any text, and executes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from chat_models.replies import ChatReply
from search_agents.call_values import NAME_KEYS, arguments_of, call_of, flat, python_calls, value_of
from search_agents.loose_calls import loose_calls, yaml_calls
from search_agents.parsing import json_object, json_values, labeled_answer, tagged, without_thoughts
from search_agents.records import Call

_FORM = 'a tool call must be <tool_call>{"name": ..., "arguments": {...}}</tool_call>'
_FENCED = re.compile(r"(?:```[\w-]*[ \t]*\n?|<code>)(.*?)(?:```|</code>|\Z)", re.DOTALL)
_MARK = re.compile(r"<\|[\w/: ]{1,40}\|>|\[/?TOOL_CALLS?\]")
"""Special tokens of chat templates."""
_PREFIX = re.compile(r"(</?)(?:\uff5cDSML\uff5c|\w{1,20}[:_](?=(?:tool_call|invoke|parameter|arg_key|arg_value)\b))")
"""What some models put before the names of elements, such as `minimax:` or `longcat_`."""
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
_KEY = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL | re.IGNORECASE)


def calls_of(reply: ChatReply, names: Collection[str] = ()) -> tuple[tuple[Call, ...], str]:
    """Returns the tool calls of a reply, and a message if something that looks like a call is malformed.

    Accepts the API's own calls, `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, `Tool Call: name` or
    `Action: name` followed by the arguments, elements (`<function=name>`, `<invoke name="name">`), and, in a fenced
    block or as the whole reply, JSON objects, lists of them, and calls in Python syntax. A reply with none of them and
    no answer is searched for any other form (`loose_calls`), if it has no text also in its thoughts.

    Args:
        reply: The reply.
        names: The names of the tools, for forms that could be something else: `name(query="…")` and `<name>`.
    """
    if reply.calls:
        return tuple(Call(call.name, call.arguments, place) for place, call in enumerate(reply.calls)), ""
    said = without_thoughts(reply.text)
    calls, problem = _calls_in(said, names)
    if calls or tagged(said, "answer"):
        return calls, problem
    if problem:
        found = loose_calls(said, names)
        return found, "" if found else problem
    if labeled_answer(said) is not None:
        return (), ""
    for text in (said,) if said else (reply.text, reply.thoughts):  # some models close their thoughts too late
        if late := _calls_in(text, names)[0] or loose_calls(text, names):
            return late, ""
    return (), ""


def _calls_in(text: str, names: Collection[str]) -> tuple[tuple[Call, ...], str]:
    """Returns the calls in a text that are written as such."""
    text = _OF_TEMPLATES.sub(_of_template, _QUOTE.sub('"', _PREFIX.sub(r"\1", text)))
    text = _MARK.sub(" ", text).strip()
    if (written := _tool_calls(text)) and (tagged_calls := _all(written, names)) != ((), ""):
        return tagged_calls
    if elements := _ELEMENT.findall(text):
        return tuple(Call(name, arguments_of(content)) for name, content in elements), ""
    for form in (_SPOKEN, _ACTION):
        if spoken := list(form.finditer(text)):
            if form is _ACTION and (in_yaml := tuple(call for call in yaml_calls(text, names) if call.arguments)):
                return in_yaml, ""
            ends = [one.start() for one in spoken[1:]] + [len(text)]
            return tuple(_spoken(one, text[one.end() : end], names) for one, end in zip(spoken, ends, strict=True)), ""
    if tagged(text, "answer"):
        return (), ""
    if named := [(name, content) for name in names for content in tagged(text, re.escape(name)) if content]:
        return tuple(Call(name, arguments_of(content, "queries")) for name, content in named), ""
    blocks = [text] if _is_json(text) else _FENCED.findall(text)
    found, problem = _all([block for block in blocks if _has_calls(block)], names)
    if found or problem:
        return found, problem
    return tuple(call for block in dict.fromkeys([text, *blocks]) for call in python_calls(block, names)), ""


def _of_template(found: re.Match[str]) -> str:
    name, arguments = (part for part in found.groups() if part is not None)
    return f"<tool_call>{name}{arguments}</tool_call>"


def _tool_calls(text: str) -> list[str]:
    """Returns the contents of the `<tool_call>` elements, preceded by the name if the tag has one."""
    written = tagged(text, "tool_call")
    attributes = re.findall(r"<\s*tool_call(?:\s+name\s*=\s*[\"']?([\w.-]+)[\"']?)?(?:\s[^<>]*)?>", text, re.I)
    pairs = zip(attributes, written, strict=False)
    return [f"<function={name}>{content}" if name else content for name, content in pairs if content or not name]


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
        yield from (Call(name, arguments_of(content)) for name, content in elements)
    elif (named := _NAMED.search(text)) is not None:
        yield Call(named[1], arguments_of(text[named.end() :]))
    elif pairs := _KEY.findall(text):
        name = re.match(r"\s*([\w.-]+)", text)
        yield None if name is None else Call(name[1], {key.strip(): value_of(value) for key, value in pairs})
    elif python := python_calls(text, names):
        yield from python
    elif re.match(r"\s*[\w.-]+\s*\{", text):  # name{"queries": …}
        name_, _, rest = text.partition("{")
        yield Call(name_.strip(), arguments_of("{" + rest))
    else:
        yield from (call_of(value, names) for value in flat(json_values(text, "{[")))


def _is_json(text: str) -> bool:
    return re.match(r"\s*(?:\{|\[\s*(?:[\[{\"\'\]]|\Z))", text) is not None


def _has_calls(block: str) -> bool:
    """Returns whether a block is JSON that contains a call, or malformed JSON."""
    if not _is_json(block):
        return False
    values = list(flat(json_values(block, "{[")))
    return not values or any(isinstance(value, dict) and set(NAME_KEYS) & value.keys() for value in values[:1])


def _spoken(name: re.Match[str], below: str, names: Collection[str]) -> Call:
    first = below.strip().partition("\n")[0].strip()
    if (
        first.startswith("(")
        and (calls := python_calls(name[1] + first, names))
        and isinstance(calls[0].arguments, dict)
    ):
        return calls[0]
    if first.startswith("[") and first.endswith("]"):  # name[a query]
        listed = value_of(first)
        return Call(name[1], {"queries": listed if isinstance(listed, list) else [first[1:-1].strip()]})
    arguments = json_object(below)
    if arguments is None and name.re is _ACTION and name[2] and first and "{" not in below:
        named = re.match(r"(quer(?:y|ies)|question|page|url|text)\s{0,3}[:=]\s{0,3}(?=\S)", first, re.IGNORECASE)
        return Call(name[1], {named[1].lower(): value_of(first[named.end() :])} if named else first)
    return Call(name[1], below.strip() if arguments is None and "{" in below else arguments or {})
