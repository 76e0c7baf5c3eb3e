"""The search agents as modes of a service, with a scripted planner."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from omgm.agent import LazyEngine, access_of
from omgm.agent_modes import AgentMode
from omgm.modes import mode_names
from omgm.settings import AgentSettings
from retriever.searching import Searcher
from search_agents.regions import ProposeRegions
from serving.modes import Mode, Modes
from serving.schemas import AgentBudget
from tests.fakes.planner import Script, ScriptedPlanner


def agents(script: Script | ScriptedPlanner, propose: ProposeRegions | None = None, **values: Any) -> Modes:
    """Returns all agents; `values` are their settings."""
    planner = script if isinstance(script, ScriptedPlanner) else ScriptedPlanner(script)
    settings = AgentSettings(**values)

    def opened(searcher: Searcher, closing: AsyncExitStack) -> Mapping[str, Mode]:
        engine = LazyEngine(searcher, planner, propose=propose, **access_of(settings))
        closing.push_async_callback(engine.aclose)
        return {name: AgentMode(name, engine, planner.name, settings) for name in mode_names()}

    limits = settings.model_dump(include=set(AgentBudget.model_fields))
    return Modes(opened, AgentBudget(**limits), settings.runs)
