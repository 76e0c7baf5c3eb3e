"""The interface of all tools: a name, a JSON schema, a function, a cost and a cache key."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from search_agents.parsing import json_object
from search_agents.state import AgentRun, Call, Observation


class CallError(ValueError):
    """A call that cannot run as written; the message tells the model why."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name in calls.
        description: What it does, for the model.
        arguments: The pydantic model of its arguments, which provides the JSON schema and validates calls.
        run: Runs a call, given its arguments and the run, which it must not change.
        key: Returns everything else that determines the result, such as an image's hash, as a JSON value. Without it,
            results are neither cached nor recorded, because they are cheap and deterministic.
        cost: Price per unit.
        units: Returns the number of units of a call, such as the queries of a search.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any, AgentRun], Awaitable[Observation]]
    key: Callable[[Any, AgentRun], object] | None = None
    cost: float = 0.0
    units: Callable[[Any], int] = lambda arguments: 1

    def price(self, arguments: BaseModel) -> float:
        """Returns the price of a call, in the budget's money."""
        return self.cost * self.units(arguments)

    def schema(self) -> dict[str, Any]:
        """Returns the tool in the format of the OpenAI API."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": _schema(self.arguments),
        }
        return {"type": "function", "function": function}

    def cache_key(self, arguments: BaseModel, run: AgentRun) -> str | None:
        """Returns the cache key of a call, or `None` if its result must not be cached."""
        if self.key is None:
            return None
        key = {"tool": self.name, "arguments": arguments.model_dump(mode="json"), "with": self.key(arguments, run)}
        return json.dumps(key, ensure_ascii=False, sort_keys=True)


@lru_cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of arguments; cached because computing one takes milliseconds."""
    return arguments.model_json_schema()


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
