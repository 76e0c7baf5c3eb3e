"""Search agents for the service: they search through its batches, within the profile's limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from omgm.agent import LazyEngine, access_of, budget_of, wordings_of
from omgm.kinds.chat import build_planner
from omgm.regions import build_proposer
from omgm.settings import AgentSettings, Profile
from retriever.protocols import DualEncoder
from search_agents.model import ChatPlanner, Planner
from search_agents.policies import policy_names, policy_of
from search_agents.records import Watch
from search_agents.regions import ProposeRegions
from search_agents.tools.index import Searcher
from search_agents.trail import AgentAnswer
from serving.agents import AgentRequest
from serving.schemas import AgentBudget

logger = logging.getLogger(__name__)


class ServedAgents:
    """The service's `serving.agents.AgentRunner`.

    Args:
        searcher: The service's index with its retrieval steps and generator.
        planner: The chat model that plans; closed with this object.
        settings: The limits of a run, and what it may search.
        propose: Proposes regions for images that come without any.
    """

    def __init__(
        self, searcher: Searcher, planner: Planner, settings: AgentSettings, propose: ProposeRegions | None = None
    ) -> None:
        self._engine = LazyEngine(searcher, planner, propose=propose, **access_of(settings))
        self._budget = budget_of(settings)
        self._prompts = settings.prompts
        self.modes: Sequence[str] = tuple(mode for mode in policy_names() if _has_prompts(mode, settings.prompts))
        self.model = planner.name
        self.limits = AgentBudget(
            rounds=settings.rounds, tokens=settings.tokens, seconds=settings.seconds, money=settings.money
        )
        self.runs = settings.runs

    async def run(self, request: AgentRequest, watch: Watch | None) -> AgentAnswer:
        """Runs the policy that the request names."""
        budget = replace(self._budget, **request.budget.model_dump(exclude_none=True))
        policy = policy_of(request.mode, wordings_of(request.mode, self._prompts))
        engine = self._engine.opened()
        return await engine.run(
            policy, request.question, request.image, boxes=request.boxes, budget=budget, watch=watch
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._engine.aclose()


def _has_prompts(mode: str, prompts: str) -> bool:
    """Returns whether a policy has the prompts that the settings require; logs if it has not."""
    try:
        wordings_of(mode, prompts)
    except ValueError as error:
        logger.warning("the mode %s is not offered: %s", mode, error)
        return False
    return True


def agents_of(profile: Profile, encoder: DualEncoder) -> Callable[[Searcher], ServedAgents] | None:
    """Returns a factory for a profile's agents, or `None` if no chat model is set.

    Args:
        profile: The profile.
        encoder: Its model of step 1, which may also propose regions.
    """
    if not (profile.generator.base_url and profile.generator.model):
        return None
    propose = build_proposer(profile, encoder) if profile.agents.propose_regions else None
    return lambda searcher: ServedAgents(searcher, ChatPlanner(build_planner(profile)), profile.agents, propose)
