"""How an evaluation conducts an agent: policy, wordings, parser and inputs, and what deviates from the paper."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from PIL import Image

from search_agents.engine import Policy
from search_agents.policies import SOURCES, is_published, policy_of
from search_agents.policies.baselines import GoldenBaseline
from search_agents.policies.mmsearch import MMSearch
from search_agents.policies.vsa import VisionSearchAssistant
from search_agents.wordings import Wordings, as_text

if TYPE_CHECKING:
    from evaluation.datasets import Question


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
        if self.mode == GoldenBaseline.name:
            if not question.golden_query:
                raise ValueError("the question has no golden query")
            return GoldenBaseline(question.golden_query, self.wordings, official=self.official)
        if self.mode == MMSearch.name:
            given = () if self.own_image_search else image_search
            return MMSearch(self.wordings, official=self.official, image_search=given)
        return policy_of(self.mode, self.wordings, official=self.official)

    def identity(self) -> dict[str, Any]:
        """Returns the settings that determine the answers; a run resumes only if they are the same."""
        digest = "own" if self.wordings is None else hashlib.sha256(as_text(self.wordings).encode()).hexdigest()
        return {
            "prompts": digest,
            "parser": "official" if self.official else "tolerant",
            "own image search": self.own_image_search,
            "regions": dict(self.regions),
        }

    def deviations(self, *, proposes: bool = False) -> dict[str, str]:
        """Returns a sentence on each deviation from the paper that is known before the run, by its short name.

        `proposes` says whether regions are proposed for images without any.
        """
        said = {}
        if not is_published(self.mode, self.wordings):
            source = SOURCES.get(self.mode)
            hint = f" (omgm download --prompts {source})" if source and self.wordings is None else ""
            said["own-prompts"] = f"The wording of the prompts is ours, not the paper's{hint}."
        if not self.official:
            said["tolerant-parser"] = "Replies were read in any form; the published code reads them literally."
        if self.mode == VisionSearchAssistant.name and not self.regions and not proposes:
            said["no-regions"] = "Without a region detector (regions.model), the whole image is the only region."
        return said
