"""The steps of retrieval that ask the generator's chat model."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from generators.steps.identify import Identify
from generators.steps.inspect import Inspect
from generators.steps.replies import Replies
from generators.steps.rewrite import Rewrite
from omgm.kinds.chat import build_planner
from omgm.settings import StepSettings
from omgm.steps import StepParts, build_step

ASKING = ("identify", "inspect", "rewrite")
"""Their kinds."""

Count = Annotated[int, Field(ge=1)]


def identify_step(parts: StepParts, candidates: Count = 10, pictures: Annotated[int, Field(ge=0)] = 0) -> Identify:
    """Makes the step `identify`.

    Raises:
        ValueError: The generator's model does not see.
    """
    replies = _replies(parts)
    if not replies.sees:
        raise ValueError("the step identify needs a model that sees: set generator.multimodal = true")
    return Identify(replies, parts.index, candidates, pictures)


def inspect_step(parts: StepParts, entities: Count = 1, sections: Count = 3) -> Inspect:
    """Makes the step `inspect`."""
    return Inspect(_replies(parts), parts.index, entities, sections)


def rewrite_step(parts: StepParts, step: str | dict[str, Any] = "sections") -> Rewrite:
    """Makes the step `rewrite` around another one, given like an entry of the profile's `steps`."""
    settings = StepSettings.model_validate({"kind": step} if isinstance(step, str) else step)
    return Rewrite(_replies(parts), build_step(parts, settings, "rewrite.step"))


def _replies(parts: StepParts) -> Replies:
    settings = parts.profile.generator
    return Replies(build_planner(parts.profile), settings.multimodal, settings.max_tokens)
