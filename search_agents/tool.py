"""Checks the calls of tools: resolves their names and validates their arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from search_agents.parsing import json_object
from search_agents.records import Call
from search_agents.state import Tool


class CallError(ValueError):
    """A call that cannot run as written; the message tells the model why."""


def plain_name(name: str, tools: Collection[str]) -> str:
    """Resolves the name of a tool in a call: in any case, with `-` for `_`, or after `functions.`.

    Example:
        >>> plain_name("functions.Text-Search", ["text_search"]), plain_name("search", ["text_search"])
        ('text_search', 'search')
    """
    if name in tools:
        return name
    last = re.split(r"[.:/]", name.strip())[-1]
    plain = re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last)).lower()
    return next((one for one in (plain, plain.removesuffix("_tool")) if one in tools), name)


def check_call(call: Call, tools: Mapping[str, Tool]) -> tuple[Tool, BaseModel]:
    """Returns the tool of a call and its validated arguments.

    Raises:
        CallError: There is no such tool, or the arguments are invalid; the message says what is wrong.
    """
    tool = tools.get(plain_name(call.tool, tools))
    if tool is None:
        near = get_close_matches(plain_name(call.tool, ()), tools, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise CallError(f"there is no tool {call.tool[:80]!r}{hint}; the tools are {', '.join(tools)}")
    try:
        return tool, tool.arguments.model_validate(_values(call.arguments, tool))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
            for problem in error.errors()[:5]
        )
        raise CallError(f"wrong arguments of {call.tool}: {wrong}") from error
    except (ValueError, RecursionError) as error:
        raise CallError(f"the arguments of {call.tool} are not a JSON object: {str(error)[:200]}") from error


def _values(arguments: Mapping[str, Any] | str, tool: Tool) -> Any:
    """Returns the arguments of a call as JSON values; a list is taken as the first arguments, a text as the first."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}
    values = _json(arguments)
    if isinstance(values, str):  # encoded twice, or the text itself
        values = _json(values) if "{" in values else values
    if isinstance(values, str | int | float):
        values = [values]
    if isinstance(values, list):
        return dict(zip(tool.arguments.model_fields, values, strict=False))
    return {} if values is None else values


def _json(text: str) -> Any:
    """Returns the JSON value of a text, or the text itself if it is no object and no list.

    Raises:
        ValueError: It begins like an object or a list, but is none.
        RecursionError: It is nested too deeply.
    """
    try:
        return json.loads(text, strict=False)
    except ValueError:
        if not text.lstrip().startswith(("{", "[")):
            return text.strip()
        if (found := json_object(text)) is None:
            raise
        return found
