"""The policies, which choose the next action; one file per paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from search_agents.engine import Policy
from search_agents.policies.auto import Auto
from search_agents.policies.baselines import (
    CaptionWebBaseline,
    GoldenBaseline,
    ImageBaseline,
    ImageWebBaseline,
    PlainBaseline,
    WebBaseline,
)
from search_agents.policies.mmsearch import MMSearch
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.policies.mmsearch_plus_settings import ImageSearched, Rollout, TextSearched, WithoutSearch
from search_agents.policies.omnisearch import OmniSearch
from search_agents.policies.omnisearch_published import OmniSearchPublished
from search_agents.policies.vsa import VisionSearchAssistant
from search_agents.wordings import Wordings

POLICIES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (Auto, MMSearchPlus, OmniSearch, MMSearch, VisionSearchAssistant)
}
"""Factories of policies by name; each run needs a new object."""

BASELINES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy
    for policy in (
        PlainBaseline,
        ImageBaseline,
        WebBaseline,
        ImageWebBaseline,
        CaptionWebBaseline,
        WithoutSearch,
        ImageSearched,
        TextSearched,
        Rollout,
    )
}
"""Factories of baselines for evaluations; `GoldenBaseline` is not among them because it needs the data set's query."""

_HEURISTICS = (PlainBaseline, ImageBaseline, WebBaseline, ImageWebBaseline, CaptionWebBaseline)
SOURCES: Mapping[str, str] = {
    **{name: name for name in ("mmsearch", "omnisearch", "vsa", "mmsearch-plus")},
    **dict.fromkeys((TextSearched.name, Rollout.name), "mmsearch-plus"),
    **dict.fromkeys((GoldenBaseline.name, *(one.name for one in _HEURISTICS)), "omnisearch"),
}
"""The source of each policy's published prompts (`search_agents.wordings`), where there is one."""


def policy_of(name: str, wordings: Wordings | None = None, *, official: bool = False) -> Policy:
    """Returns a new policy.

    Args:
        name: A key of `POLICIES` or `BASELINES`.
        wordings: The published prompts of its source (`SOURCES`); `None` for ours.
        official: Whether to read replies as the published code does, instead of tolerantly.
    """
    if name == OmniSearch.name:
        return OmniSearchPublished(wordings) if official or wordings is not None else OmniSearch()
    for literal in (MMSearch, VisionSearchAssistant, *_HEURISTICS):
        if name == literal.name:
            return literal(wordings, official=official)
    for planned in (MMSearchPlus, TextSearched, Rollout):
        if name == planned.name:
            return planned(wordings=wordings)
    return {**POLICIES, **BASELINES}[name]()


def is_published(name: str, wordings: Wordings | None) -> bool:
    """Returns whether a policy asks in the words of its paper, given the wordings of its source."""
    if name == PlainBaseline.name:
        return True  # its format is only "Q", image, question and "Answer:"
    needed = "heuristic" if SOURCES.get(name) == "omnisearch" and name != OmniSearch.name else ""
    return name in SOURCES and wordings is not None and (not needed or needed in wordings)
