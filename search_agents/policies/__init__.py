"""The policies, which choose the next action; one file per paper.

Another package adds one by an entry point, and `--mode twice` then takes it:

    [project.entry-points."omgm.policies"]
    twice = "look_twice:TWICE"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retriever.entry_points import named, names
from search_agents.policies.kinds import Conditions, PolicyKind

if TYPE_CHECKING:
    from PIL import Image

    from search_agents.engine import Policy
    from search_agents.wordings import Wordings

_POLICIES = {
    "auto": "search_agents.policies.auto:AUTO",
    "mmsearch-plus": "search_agents.policies.mmsearch_plus:MMSEARCH_PLUS",
    "omnisearch": "search_agents.policies.omnisearch_published:OMNISEARCH",
    "mmsearch": "search_agents.policies.mmsearch:MMSEARCH",
    "vsa": "search_agents.policies.vsa:VSA",
}
"""This project's policies by name, in the form of entry points."""
_BASELINES = {
    "dynvqa-plain": "search_agents.policies.baselines:PLAIN",
    "dynvqa-image": "search_agents.policies.baselines:IMAGE_ALONE",
    "dynvqa-web": "search_agents.policies.baselines:WEB",
    "dynvqa-image-web": "search_agents.policies.baselines:IMAGE_WEB",
    "dynvqa-caption-web": "search_agents.policies.baselines:CAPTION_WEB",
    "mmsearch-plus-none": "search_agents.policies.mmsearch_plus_settings:WITHOUT_SEARCH",
    "mmsearch-plus-image": "search_agents.policies.mmsearch_plus_settings:IMAGE_SEARCHED",
    "mmsearch-plus-text": "search_agents.policies.mmsearch_plus_settings:TEXT_SEARCHED",
    "mmsearch-plus-rollout": "search_agents.policies.mmsearch_plus_settings:ROLLOUT",
    "dynvqa-golden": "search_agents.policies.baselines:GOLDEN",
}
"""Those that papers compare theirs with, for evaluations alone."""
GROUP = "omgm.policies"
"""The group of entry points that name the policies of other packages."""


def policy_names(*, baselines: bool = False) -> tuple[str, ...]:
    """Returns the names of all policies, of other packages too, and for evaluations of baselines; imports none."""
    return (*names(GROUP, _POLICIES), *(_BASELINES if baselines else ()))


def policy_kind(name: str) -> PolicyKind:
    """Returns the policy or baseline of a name.

    Raises:
        ValueError: There is none, or its entry point names something else.
    """
    return named(GROUP, name, _POLICIES | _BASELINES, PolicyKind)


def policy_of(
    name: str,
    wordings: Wordings | None = None,
    *,
    official: bool = False,
    golden_query: str = "",
    image_search: Sequence[Image.Image] = (),
) -> Policy:
    """Returns a new policy for one run; the arguments are those of `Conditions`.

    Raises:
        ValueError: There is none of the name, or the question lacks what it needs.
    """
    return policy_kind(name).make(Conditions(wordings, official, golden_query, image_search))
