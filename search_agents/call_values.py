"""Calls and their arguments as values: JSON objects, elements, and expressions in Python's syntax. Executes nothing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from search_agents.parsing import json_object, literal
from search_agents.records import Call

_LONGEST_CALL = 5_000
"""Maximum characters of a call in Python syntax."""
_PARAMETER = re.compile(
    r"<\s*parameter\s*(?:=|\s+name\s*=)\s*[\"']?([\w.-]+)[\"']?[^<>]*>(.*?)"
    r"(?=<\s*/?\s*parameter\b|\Z)",
    re.DOTALL | re.I,
)
_CHILD = re.compile(r"<([a-z]\w{0,40})>(.*?)</\1>", re.DOTALL | re.I)
NAME_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name", "function_name", "command")
_ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "action_input", "action input", "input", "tool_input", "tool_args", "params"),
    "kwargs",
)
_WRAPPERS = ("function", "action", "tool", "command", "call", "function_call", "functionCall", "tool_call", "toolCall")
_LIST_KEYS = ("tool_calls", "tool_uses", "function_calls", "calls", "actions")
_OTHER_KEYS = ("id", "type", "tool_call_id", "thought")


def flat(values: Iterator[Any]) -> Iterator[Any]:
    """Yields values, and in place of lists of calls their items."""
    for value in values:
        inner = next((value[key] for key in _LIST_KEYS if key in value), None) if isinstance(value, dict) else value
        if isinstance(inner, list):
            yield from inner
        else:
            yield value


def call_of(value: Any, names: Collection[str]) -> Call | None:
    """Returns the call that a JSON value is, or `None` if it is none.

    Example:
        >>> call_of({"function": {"name": "ocr", "arguments": {"region": 1}}}, ())
        Call(tool='ocr', arguments={'region': 1}, place=None)
        >>> call_of({"ocr": {"region": 1}}, ["ocr"]) == call_of({"action": "ocr", "region": 1}, ())
        True
    """
    if not isinstance(value, dict):
        return None
    if value.get("method") == "tools/call":  # of MCP
        value = value.get("params")
    value = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), dict)), value) if value else {}
    name = next((value[key] for key in NAME_KEYS if key in value), None)
    if name is None and len(value) == 1 and (only := next(iter(value))) in names:
        named = {"queries": value[only]} if isinstance(value[only], list) else value[only]
        return Call(only, named) if isinstance(named, dict) else None
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if arguments is None:
        arguments = {key: value[key] for key in value if key not in (*NAME_KEYS, *_ARGUMENT_KEYS, *_OTHER_KEYS)}
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return Call(name, arguments)


def arguments_of(content: str, only: str = "") -> dict[str, Any] | str:
    """Returns the arguments in an element: parameters, a JSON object, elements, or a text for the argument `only`."""
    if parameters := _PARAMETER.findall(content):
        return {key: value_of(value) for key, value in parameters}
    found = json_object(content)
    if found is not None or "{" in content:
        return found or content.strip()
    if children := children_of(content):
        return children
    return {only: value_of(content)} if only and content.strip() else {}


def children_of(content: str) -> dict[str, Any]:
    """Returns the values of elements by their names, repeated ones as a list; empty if there is other text.

    Example:
        >>> children_of("<queries>a</queries> <queries>b</queries><limit>3</limit>")
        {'queries': ['a', 'b'], 'limit': 3}
    """
    if _CHILD.sub("", content).strip():
        return {}
    values: dict[str, list[Any]] = {}
    for name, inner in _CHILD.findall(content):
        nested = list(children_of(inner).values())
        values.setdefault(name, []).append(value_of(inner) if not nested else nested[0] if len(nested) == 1 else nested)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def value_of(text: str) -> Any:
    """Returns the JSON value that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


@lru_cache
def _called(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})(?:\.call)?\s*\(")


def python_calls(text: str, names: Collection[str]) -> list[Call]:
    """Returns the calls of a text that is nothing but calls of known tools, such as `[text_search(queries=["a"])]`."""
    if "(" not in text or not names or len(text) > _LONGEST_CALL or not _called(frozenset(names)).search(text):
        return []
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    nodes = [node.value for node in body if isinstance(node, ast.Expr | ast.Assign)]
    nodes = [one for node in nodes for one in (node.elts if isinstance(node, ast.List | ast.Tuple) else [node])]
    return [call for node in nodes if (call := _python_call(node, names)) is not None]


def _python_call(node: ast.expr, names: Collection[str]) -> Call | None:
    if isinstance(node, ast.Await):
        node = node.value
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
