"""The search agents as modes, within a profile's limits; `pyproject.toml` names them in `omgm.modes`."""

from __future__ import annotations

from dataclasses import replace

from omgm.agent import LazyEngine, access_of, budget_of, wordings_of
from omgm.kinds.chat import build_planner
from omgm.modes import ModeContext, ModeUnavailable
from omgm.regions import build_proposer, can_propose
from omgm.settings import AgentSettings
from retriever.trail_views import Watch
from search_agents.corpus import Corpus
from search_agents.model import ChatPlanner
from search_agents.policies import policy_kind, policy_of
from search_agents.regions import boxes_of
from search_agents.trail import AgentAnswer
from serving.modes import ModeRequest, ModeRun


class AgentMode:
    """A search agent as a `serving.modes.Mode`.

    Args:
        name: The name of its policy.
        engine: Runs the policy; shared by all agents.
        model: The name of the chat model that plans.
        settings: The limits of a run, and whose prompts are used.

    Raises:
        ModeUnavailable: The settings require prompts that were not downloaded.
    """

    def __init__(self, name: str, engine: LazyEngine, model: str, settings: AgentSettings) -> None:
        self._name, self._engine, self.model = name, engine, model
        self._budget, self._prompts = budget_of(settings), settings.prompts
        try:
            wordings_of(name, settings.prompts)
        except ValueError as error:
            raise ModeUnavailable(str(error)) from error

    def begin(self, request: ModeRequest) -> ModeRun:
        """Checks the boxes; returns the function that runs the policy."""
        boxes = boxes_of(request.boxes, request.image)
        budget = replace(self._budget, **request.budget.model_dump(exclude_none=True))

        async def run(watch: Watch | None) -> AgentAnswer:
            wordings, engine = wordings_of(self._name, self._prompts), self._engine.opened()
            policy, dated = policy_of(self._name, wordings), wordings is None
            question, image = request.question, request.image
            return await engine.run(policy, question, image, boxes=boxes, budget=budget, watch=watch, dated=dated)

        return run


def agent_mode(name: str, context: ModeContext) -> AgentMode:
    """Makes an agent; all of them share one engine.

    Raises:
        ModeUnavailable: The settings require prompts that were not downloaded.
        ValueError: A model or a setting is missing.
    """
    needs_regions = policy_kind(name).needs_regions and context.may_propose
    engine, model = context.share(_correlating if needs_regions else _engine)
    return AgentMode(name, engine, model, context.profile.agents)


def _engine(context: ModeContext, proposes: bool = False) -> tuple[LazyEngine, str]:
    """Returns an engine and the name of the chat model that plans."""
    profile, settings = context.profile, context.profile.agents
    planner = ChatPlanner(build_planner(profile))
    corpus = None if context.corpus is None else Corpus(context.corpus, record=context.record)
    propose = build_proposer(profile, context.encoder) if settings.propose_regions or proposes else None
    engine = LazyEngine(context.searcher, planner, propose=propose, corpus=corpus, **access_of(settings))
    context.closing.push_async_callback(engine.aclose)
    return engine, planner.name


def _correlating(context: ModeContext) -> tuple[LazyEngine, str]:
    """Returns the engine of a policy that correlates captions over regions, which are proposed if they can be."""
    return _engine(context, can_propose(context.profile, context.encoder))
