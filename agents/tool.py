"""The one shape of all tools: a name, a JSON schema, a function, a cost and a cache key."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from agents.parsing import json_object
from agents.state import AgentRun, Call, Observation


class CallError(ValueError):
    """A call that cannot run as written; the message tells the model what was wrong."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name in calls.
        description: What it does, for the model.
        arguments: The model of its arguments; it gives the JSON schema and checks calls.
        run: Takes the arguments and the run. It must not change the run.
        key: Returns, as a JSON value, what else decides the result, such as an image's hash. Without it, results are
            neither cached nor recorded, because they are cheap and always the same.
        cost: Money per unit.
        units: How many units a call is, such as queries of a search.
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
        """Returns the tool as the OpenAI API takes it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": _schema(self.arguments),
        }
        return {"type": "function", "function": function}

    def cache_key(self, arguments: BaseModel, run: AgentRun) -> str | None:
        """Returns the key of a call's result, `None` if it must not be cached."""
        if self.key is None:
            return None
        key = {"tool": self.name, "arguments": arguments.model_dump(mode="json"), "with": self.key(arguments, run)}
        return json.dumps(key, ensure_ascii=False, sort_keys=True)


@lru_cache
def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of arguments; making one takes milliseconds."""
    return arguments.model_json_schema()


def plain_name(name: str, tools: Collection[str]) -> str:
    """Returns the name of a tool that a call means: in any case, with `-` for `_`, or behind `functions.`.

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
    """Returns the tool of a call and its checked arguments.

    Raises:
        CallError: There is no such tool, or the arguments do not fit; the message says what is wrong.
    """
    tool = tools.get(plain_name(call.tool, tools))
    if tool is None:
        raise CallError(f"there is no tool {call.tool[:80]!r}; the tools are {', '.join(tools)}")
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
    """Returns the arguments of a call as JSON values; a list has the first arguments without their names."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}
    try:
        values = json.loads(arguments, strict=False)
        values = json.loads(values, strict=False) if isinstance(values, str) else values  # encoded twice
    except (ValueError, RecursionError):
        values = json_object(arguments) if arguments.lstrip().startswith("{") else None
        if values is None:
            raise
    if isinstance(values, list):
        return dict(zip(tool.arguments.model_fields, values, strict=False))
    return {} if values is None else values
