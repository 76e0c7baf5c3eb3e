"""The policies, which choose the next action; one file per paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.engine import Policy
from agents.policies.auto import Auto
from agents.policies.baselines import CaptionWebBaseline, ImageBaseline, ImageWebBaseline, WebBaseline
from agents.policies.mmsearch import MMSearch
from agents.policies.mmsearch_plus import MMSearchPlus
from agents.policies.omnisearch import OmniSearch
from agents.policies.vsa import VisionSearchAssistant

POLICIES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (Auto, MMSearchPlus, OmniSearch, MMSearch, VisionSearchAssistant)
}
"""Factories of policies by name; each run needs a new object."""

BASELINES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (ImageBaseline, WebBaseline, ImageWebBaseline, CaptionWebBaseline)
}
"""Factories of baselines for evaluations; `GoldenBaseline` is not among them because it needs the data set's query."""
