"""The last resort for tool calls: any place in a text that names a known tool together with arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import yaml

from search_agents.call_values import NAME_KEYS, arguments_of, call_of, children_of, flat, python_calls
from search_agents.parsing import json_values, tagged
from search_agents.records import Call
from search_agents.tool import plain_name

_LONGEST = 20_000
"""Maximum characters that are searched."""
_NEAR = 5_000
"""Maximum characters for forms that are slower to search for."""
_SEARCH = re.compile(
    r"<\s*search(?:_query)?(?:\s+query\s*=\s*(?P<q>[\"'])(?P<given>[^\"'<>]+)(?P=q)[^<>]*/?)?\s*>"
    r"(?P<inner>.*?)(?=<\s*/\s*search|<\|end|\Z)|<\|begin_(?:of_|search_)query\|>(?P<marked>.*?)(?=<\||\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""A search in the tags of Search-R1, Search-o1 and their kin, which name no tool."""
_YAML = re.compile(rf"^[ \t-]*[\"']?(?:{'|'.join(NAME_KEYS)})[\"']?:[ \t]+[\"']?([\w.-]+)", re.MULTILINE)
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_GAP = r"[^{}\w]{0,20}(?:[\w<>|:*\u273f\u52a8\u4f5c\u8f93\u5165\uff1a'\"`, /-]{0,60}?)"
"""What may stand between a tool's name and the JSON object of its arguments."""


def loose_calls(text: str, names: Collection[str]) -> tuple[Call, ...]:
    """Returns the calls of known tools amid other text, in the first form that has any."""
    if not names:
        return ()
    text = text[:_LONGEST]
    letters = _letters(text)
    if "search" not in letters and "query" not in letters and not any(_letters(name) in letters for name in names):
        return ()
    for form in (_objects, _lines, yaml_calls, _elements, _named_objects, _expressions, _searches):
        if calls := tuple(call for call in form(text, names) if plain_name(call.tool, names) in names):
            return calls
    return ()


def _letters(text: str) -> str:
    """Returns a text without what spellings of a name differ in."""
    return re.sub(r"[\W_]+", "", text).lower()


def _objects(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields the JSON objects that are calls, also within a JSON string."""
    try:
        inner = json.loads(text) if text.lstrip().startswith('"') else text
    except (ValueError, RecursionError):
        inner = text
    written = (call_of(value, names) for value in flat(json_values(inner if isinstance(inner, str) else text, "{[")))
    yield from (call for call in written if call is not None)


def _lines(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields calls in Python syntax that fill a line."""
    for line in text.splitlines():
        yield from python_calls(line.strip(" `*->"), names)


def yaml_calls(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields the calls in YAML, in fences or from the first line that has a key."""
    for block in re.findall(r"```ya?ml\s*\n(.*?)(?:```|\Z)", text[:_NEAR], re.DOTALL) or [text[:_NEAR]]:
        known = any(plain_name(found[1], names) in names for found in _YAML.finditer(block))
        start = re.search(r"^(?:- )?[\"']?\w+[\"']?:(?:[ \t]|$)", block, re.MULTILINE)
        if start is None or not (known or block[start.start() :].partition(":")[0] in names):
            continue
        try:
            value = yaml.load(re.split(r"```|</", block[start.start() :])[0], _YAML_LOADER)
            value = json.loads(json.dumps(value))
        except (yaml.YAMLError, ValueError, TypeError, RecursionError):
            continue
        yield from (call for one in flat(iter([value])) if (call := call_of(one, names)) is not None)


def _elements(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields calls whose tool is an attribute, an element or the element's own name."""
    text = text[:_NEAR]
    known = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    for found in re.finditer(rf"<\s*(\w+)\s([^<>]*?\bname\s*=\s*[\"']({known})[\"'][^<>]*?)(/?)>", text, re.I):
        inside = "" if found[4] else next(iter(tagged(text[found.start() :], re.escape(found[1]))), "")
        yield Call(found[3], arguments_of(inside) or _attributes(found[2]))
    for found in re.finditer(rf"<\s*({known})((?:\s[^<>]*?=[^<>]*?)?)\s*/?>", text, re.I):
        yield Call(found[1], _attributes(found[2]))
    for found in re.finditer(rf"<\s*([\w-]{{1,30}})\s*>\s*(?:[\w.]+[.:])?({known})\s*<\s*/\s*\1\s*>", text, re.I):
        rest = text[found.end() :].strip()
        end = re.search(r"</(?:tool|function|invoke|use|mcp)[\w-]*>", rest, re.I)
        arguments = arguments_of(rest[: end.start()] if end else rest)
        [inner] = arguments.values() if isinstance(arguments, dict) and len(arguments) == 1 else [None]
        yield Call(found[2], inner if isinstance(inner, dict) else _unwrapped(rest) or arguments)


def _unwrapped(rest: str) -> dict[str, Any]:
    """Returns the elements within an element of arguments."""
    for name in ("parameters", "arguments", "args", "input"):
        if found := tagged(rest, name):
            return children_of(found[0])
    return {}


def _attributes(written: str) -> dict[str, Any]:
    found = {name: double or single for name, double, single in _ATTRIBUTE.findall(written) if name != "name"}
    return {name: _listed(value) for name, value in found.items()}


def _listed(value: str) -> Any:
    return next(json_values(value, "["), value) if value.lstrip().startswith("[") else value


def _named_objects(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields calls as the name of a tool that is followed by a JSON object."""
    text = text[:_NEAR]
    for name in names:
        places = re.finditer(rf"(?<![\w.-]){re.escape(name)}(?!\w){_GAP}(?=\{{)", text)
        for found in islice(places, 5):
            if isinstance(arguments := next(json_values(text[found.end() :], "{", most=1), None), dict):
                yield Call(name, arguments)
                break


def _expressions(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields calls in Python syntax amid other text; their arguments must be literals."""
    text = text[:_NEAR]
    for found in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})\s*\(", text):
        for end in islice(re.finditer(r"\)", text[found.start() :]), 5):
            if calls := python_calls(text[found.start() : found.start() + end.end()], names):
                yield from calls
                break


def _searches(text: str, names: Collection[str]) -> Iterator[Call]:
    """Yields the searches of models that were trained with a single tool."""
    tool = next((name for name in ("text_search", "web_search") if name in names), None)
    for found in _SEARCH.finditer(text[:_NEAR]):
        query = re.sub(r"<[^<>]*>", " ", found["given"] or found["inner"] or found["marked"] or "").strip()
        if query and tool is not None:
            yield Call(tool, {"queries": query})
        elif re.search(r"<\s*ima?ge?\s*/?>", found[0], re.I):
            yield Call("image_search", {})
