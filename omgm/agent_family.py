"""The family of modes of the search agents, one for each policy; what they need is imported with the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omgm.modes import ModeContext, ModeFamily
from search_agents.policies import policy_names

if TYPE_CHECKING:
    from serving.modes import Mode


def _open(name: str, context: ModeContext) -> Mode:
    from omgm.agent_modes import agent_mode

    return agent_mode(name, context)


AGENTS = ModeFamily(policy_names, _open)
