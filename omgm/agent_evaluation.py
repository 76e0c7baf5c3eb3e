"""Has an agent do the tasks of an evaluation: answers, MMSearch's single steps, and verdicts on answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from chat_models.background import BackgroundLoop
from chat_models.chat import ChatClient
from evaluation.datasets.question import Question, RowImages, SearchTask
from evaluation.search.mmsearch import subset
from evaluation.search.run import SingleStep, Verdict
from evaluation.search.steps import StepTask, read_rerank, read_summarization
from evaluation.search.verdicts import VERDICT, judge_messages, read_verdict
from omgm.agent import Agent
from retriever.images import load_image
from search_agents.budget import Budget
from search_agents.corpus import Corpus, decode_reply, encode_reply
from search_agents.engine import Policy
from search_agents.model import ChatPlanner
from search_agents.policies import policy_kind, policy_of
from search_agents.policies.mmsearch import MMSearchRerank, MMSearchSummarize
from search_agents.policies.mmsearch_stages import SeenWebsite, Stages
from search_agents.tools.page import slices
from search_agents.wordings import Wordings, as_text


@dataclass(frozen=True, slots=True)
class Conduct:
    """How an agent is evaluated.

    Attributes:
        mode: The policy's name.
        wordings: The published prompts; `None` for ours.
        official: Whether replies are read as by the published code.
        own_image_search: Whether the published results of MMSearch's image search are replaced.
        regions: The regions of each question's image, by the question's id.
    """

    mode: str
    wordings: Wordings | None = None
    official: bool = True
    own_image_search: bool = False
    regions: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)

    def policy(self, question: Question, image_search: Sequence[Image.Image]) -> Policy:
        """Returns a new policy for a question.

        Raises:
            ValueError: The question lacks what the policy needs.
        """
        return policy_of(
            self.mode,
            self.wordings,
            official=self.official,
            golden_query=question.golden_query,
            image_search=() if self.own_image_search else image_search,
        )

    def identity(self) -> dict[str, Any]:
        """Returns the settings that determine the answers; a run resumes only if they are the same."""
        digest = "own" if self.wordings is None else hashlib.sha256(as_text(self.wordings).encode()).hexdigest()
        return {
            "prompts": digest,
            "parser": "official" if self.official else "tolerant",
            "own image search": self.own_image_search,
            "regions": dict(self.regions),
        }

    @property
    def published(self) -> bool:
        """Whether the policy asks in the words of its paper, which tell no date."""
        return policy_kind(self.mode).is_published(self.wordings)

    def deviations(self, *, proposes: bool = False) -> dict[str, str]:
        """Returns a sentence on each deviation from the paper that is known before the run, by its short name.

        `proposes` says whether regions are proposed for images without any.
        """
        said = {}
        kind = policy_kind(self.mode)
        if not self.published:
            hint = f" (omgm download --prompts {kind.prompts.name})" if kind.prompts and self.wordings is None else ""
            said["own-prompts"] = f"The wording of the prompts is ours, not the paper's{hint}."
        if not self.official:
            said["tolerant-parser"] = "Replies were read in any form; the published code reads them literally."
        if kind.needs_regions and not self.regions and not proposes:
            said["no-regions"] = "Without a region detector (regions.model), the whole image is the only region."
        return said


def ask(agent: Agent, conduct: Conduct, budget: Budget, task: SearchTask) -> dict[str, Any]:
    """Returns the trail of the agent's answer to a task.

    Raises:
        ValueError: An image is unreadable, or the question lacks what the policy needs.
    """
    policy = conduct.policy(task.question, _loaded(task.image_search))
    boxes = conduct.regions.get(task.question.id, ())
    question, images, dated = task.question.question, _loaded(task.images), not conduct.published
    return agent.run(policy, question, images, boxes=boxes, budget=budget, dated=dated).as_dict()


def single_steps(dataset: str, queries: Path, agent: Agent, conduct: Conduct) -> dict[str, SingleStep]:
    """Returns MMSearch's single-step tasks whose files exist."""
    if dataset != "mmsearch" or conduct.mode != "mmsearch":
        return {}
    kinds = {"rerank": (read_rerank, _rerank), "summarization": (read_summarization, _summarize)}
    return {
        name: SingleStep(partial(read, file), partial(do, agent, conduct))
        for name, (read, do) in kinds.items()
        if (file := subset(queries, name)) is not None
    }


def _rerank(agent: Agent, conduct: Conduct, task: StepTask) -> tuple[str, int | None]:
    sites = [SeenWebsite(site.title, site.snippet, "", tuple(_loaded(site.screenshot))) for site in task.websites]
    policy = MMSearchRerank(sites, _loaded(task.image_search), Stages(conduct.wordings, conduct.official))
    answer = agent.run(policy, task.question.question, _loaded(task.images), dated=not conduct.published)
    return answer.answer or "", policy.choice


def _summarize(agent: Agent, conduct: Conduct, task: StepTask) -> tuple[str, int | None]:
    [site] = task.websites
    shown = tuple(part for page in _loaded(site.screenshot) for part in slices(page))
    seen = SeenWebsite(site.title, site.snippet, site.text, shown)
    policy = MMSearchSummarize(seen, _loaded(task.image_search), Stages(conduct.wordings, conduct.official))
    dated = not conduct.published
    return agent.run(policy, task.question.question, _loaded(task.images), dated=dated).answer or "", None


@contextmanager
def judging(judge: ChatClient, corpus: Corpus) -> Iterator[Verdict]:
    """Yields a function that judges answers; its replies are recorded in the corpus or replayed from it."""
    loop = BackgroundLoop()

    def verdict(question: Question, answer: str) -> tuple[bool | None, str]:
        messages = judge_messages(question.question, question.answers, answer)

        async def reply() -> str:
            make = partial(ChatPlanner(judge).reply, messages, 256, (), VERDICT)
            key = json.dumps([judge.model, messages], sort_keys=True)
            found, _ = await corpus.get("judge", key, make, encode_reply, decode_reply)
            return found.text

        text = loop.submit(reply()).result()
        return read_verdict(text), text

    try:
        yield verdict
    finally:
        loop.submit(judge.aclose()).result()
        loop.close()


def _loaded(images: RowImages) -> list[Image.Image]:
    return [load_image(image) for image in images.found]
