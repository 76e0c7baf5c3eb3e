"""The policies: how the next action is chosen, one file per paper."""

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
"""Makes a policy for one run, by its name."""

BASELINES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (ImageBaseline, WebBaseline, ImageWebBaseline, CaptionWebBaseline)
}
"""Makes a baseline to compare policies with in an evaluation; `GoldenBaseline` needs a query of the data set."""
