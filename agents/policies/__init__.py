"""The policies: how the next action is chosen, one file per paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.engine import Policy
from agents.policies.auto import Auto
from agents.policies.mmsearch import MMSearch
from agents.policies.mmsearch_plus import MMSearchPlus
from agents.policies.omnisearch import OmniSearch
from agents.policies.vsa import VisionSearchAssistant

POLICIES: Mapping[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (Auto, MMSearchPlus, OmniSearch, MMSearch, VisionSearchAssistant)
}
"""Makes a policy for one run, by its name."""
