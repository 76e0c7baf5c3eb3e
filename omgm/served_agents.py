"""Search agents for the service: engines of `agents` over its own batches, bounded by the profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agents.model import ChatPlanner, Planner
from agents.policies import POLICIES
from omgm.agent import LazyEngine, access_of, budget_of
from omgm.parts import build_planner
from omgm.settings import AgentSettings, Profile
from serving.agents import AgentOutcome, AgentRequest, Searcher, Watch
from serving.schemas import AgentBudget


class ServedAgents:
    """The service's `serving.agents.AgentRunner`.

    Args:
        searcher: The service's index with its steps and its generator.
        planner: The model that plans; closed with this.
        settings: The limits of a run, and what it may search.
    """

    def __init__(self, searcher: Searcher, planner: Planner, settings: AgentSettings) -> None:
        self._engine = LazyEngine(searcher, planner, **access_of(settings))
        self._budget = budget_of(settings)
        self.modes: Sequence[str] = tuple(POLICIES)
        self.model = planner.name
        self.limits = AgentBudget(
            rounds=settings.rounds, tokens=settings.tokens, seconds=settings.seconds, money=settings.money
        )
        self.runs = settings.runs

    async def run(self, request: AgentRequest, watch: Watch | None) -> AgentOutcome:
        """Runs the policy that the request names."""
        budget = replace(self._budget, **request.budget.model_dump(exclude_none=True))
        policy = POLICIES[request.mode]()
        engine = self._engine.opened()
        answer = await engine.run(policy, request.question, request.image, budget=budget, watch=watch)
        return AgentOutcome(answer.answer, answer.as_dict(), answer.failure)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._engine.aclose()


def agents_of(profile: Profile) -> Callable[[Searcher], ServedAgents] | None:
    """Returns a function that makes a profile's agents over an index, or `None` if no chat model is set."""
    if not (profile.generator.base_url and profile.generator.model):
        return None
    return lambda searcher: ServedAgents(searcher, ChatPlanner(build_planner(profile)), profile.agents)
