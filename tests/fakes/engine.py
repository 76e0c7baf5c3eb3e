"""Runs of the engine with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from chat_models.replies import ChatReply, ToolCall
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.state import Tool
from search_agents.trail import AgentAnswer
from tests.fakes.planner import Script, ScriptedPlanner, calling, fake_tool, image

SEARCH = calling("text_search", '{"queries": ["Niger"]}')


def run(
    script: Script, tools: Sequence[Tool] | None = None, budget: Budget | None = None, **settings: Any
) -> tuple[AgentAnswer, ScriptedPlanner]:
    planner = ScriptedPlanner(script)
    engine = Engine(planner, [fake_tool("text_search")] if tools is None else tools, **settings)
    return asyncio.run(engine.run(MMSearchPlus(), "What is it?", image(), budget=budget)), planner


def searches(*queries: str) -> ChatReply:
    return ChatReply("", tuple(ToolCall("text_search", json.dumps({"queries": [query]}), query) for query in queries))
