"""The prompt that a profile asks the questions of a data set with, and how it deviates from the published one."""

from __future__ import annotations

from chat_models.prompts import prompt_deviation, style_for
from omgm.settings import Profile


def for_dataset(profile: Profile, dataset: str) -> Profile:
    """Returns a profile that asks the questions of a data set, with its paper's prompt unless it names another one."""
    style = style_for(profile.generator.style, dataset)
    return profile.model_copy(update={"generator": profile.generator.model_copy(update={"style": style})})


def deviations(profile: Profile, dataset: str) -> dict[str, str]:
    """Returns a sentence on each deviation from how a data set's paper asks, by its short name."""
    settings = profile.generator
    return prompt_deviation(style_for(settings.style, dataset), dataset) if settings.kind == "openai" else {}
