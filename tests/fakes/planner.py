"""A scripted planner, tools that return what they are told, and runs of the engine with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import Image
from pydantic import BaseModel

from chat_models.messages import Message
from chat_models.replies import ChatReply, ToolCall
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.model import Schema, Tools
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool
from search_agents.trail import AgentAnswer

Script = Sequence[str | ChatReply | Exception] | Callable[[str], str | ChatReply]
"""Replies in order, repeating the last one; or a function of the last message's text."""


class ScriptedPlanner:
    """A planner that follows a script and records the requests."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[list[Message]] = []
        self.tools: list[list[str]] = []
        self.schemas: list[Mapping[str, Any] | None] = []

    async def reply(self, messages: Sequence[Message], max_tokens: int, tools: Tools, schema: Schema) -> ChatReply:
        self.asked.append(list(messages))
        self.tools.append([tool["function"]["name"] for tool in tools])
        self.schemas.append(schema)
        if callable(self._script):
            found: str | ChatReply | Exception = self._script(last_text(messages))
        else:
            found = self._script[min(len(self.asked), len(self._script)) - 1]
        if isinstance(found, Exception):
            raise found
        return ChatReply(found) if isinstance(found, str) else found

    async def aclose(self) -> None:
        """Does nothing."""


def last_text(messages: Sequence[Message]) -> str:
    """Returns the text after the model's last reply, which the model has not seen before."""
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    return "\n".join(map(text_of, messages[replies[-1] + 1 if replies else -1 :]))


def text_of(message: Message) -> str:
    """Returns the text of a message."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(p["text"] for p in content if p["type"] == "text")


def calling(tool: str, arguments: str = "{}", text: str = "") -> ChatReply:
    """Returns a reply with one native tool call."""
    return ChatReply(text, (ToolCall(tool, arguments, "call_0"),))


class Words(BaseModel):
    """The arguments of the fake tools."""

    queries: list[str] = ["anything"]


def fake_tool(name: str, run: Callable[[Words], Observation | Exception] | None = None, *, cost: float = 0.0) -> Tool:
    """Returns a tool; by default it finds one source per query."""

    async def execute(arguments: Words, state: AgentRun) -> Observation:
        await asyncio.sleep(0)
        if run is None:
            return Observation(tuple(Source(q, f"all about {q}", f"https://kb/{q}") for q in arguments.queries))
        seen = run(arguments)
        if isinstance(seen, Exception):
            raise seen
        return seen

    return Tool(name, "A fake.", Words, execute, lambda arguments, state: "", cost)


def image(color: str = "red") -> Image.Image:
    """Returns an image of one color."""
    return Image.new("RGB", (400, 300), color)


SEARCH = calling("text_search", '{"queries": ["Niger"]}')


def run(
    script: Script, tools: Sequence[Tool] | None = None, budget: Budget | None = None, **settings: Any
) -> tuple[AgentAnswer, ScriptedPlanner]:
    planner = ScriptedPlanner(script)
    engine = Engine(planner, [fake_tool("text_search")] if tools is None else tools, **settings)
    return asyncio.run(engine.run(MMSearchPlus(), "What is it?", image(), budget=budget)), planner


def searches(*queries: str) -> ChatReply:
    return ChatReply("", tuple(ToolCall("text_search", json.dumps({"queries": [query]}), query) for query in queries))
