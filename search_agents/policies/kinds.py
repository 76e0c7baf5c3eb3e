"""What a policy is declared with: how it is made for a question, and whose prompts it asks with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the names of policies are listed by --help, which is to be quick
    from PIL import Image

    from search_agents.engine import Policy
    from search_agents.wordings import PublishedPrompts, Wordings


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a policy is made for.

    Attributes:
        wordings: The published prompts of its paper; `None` for ours.
        official: Whether to read replies as the published code does, instead of tolerantly.
        golden_query: The data set's query that names the entity, if there is one.
        image_search: The data set's screenshot of the results of a search for the image, if it may be used.
    """

    wordings: Wordings | None = None
    official: bool = False
    golden_query: str = ""
    image_search: Sequence[Image.Image] = ()


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A policy that agents can follow.

    Attributes:
        make: Makes the policy of one run. Raises `ValueError` if the question lacks what it needs.
        prompts: The published prompts of its paper, if it has one.
        template: The prompt that it asks with, if they may lack it.
        verbatim: Whether it asks as in its paper in any case.
        needs_regions: Whether it is meant for images with regions, so that they are proposed for images without.
    """

    make: Callable[[Conditions], Policy]
    prompts: PublishedPrompts | None = None
    template: str = ""
    verbatim: bool = False
    needs_regions: bool = False

    def is_published(self, wordings: Wordings | None) -> bool:
        """Returns whether it asks in the words of its paper, given the published prompts."""
        if self.verbatim or self.prompts is None:
            return self.verbatim
        return wordings is not None and (not self.template or self.template in wordings)
