"""What a chat model behind an OpenAI-compatible server does: summaries, answers, and the planning of agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from chat_models.chat import ChatClient
from chat_models.context import Cut, cut_characters, token_cut
from chat_models.prompts import style_for
from generators.chat import ChatGenerator
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.builder.summary_cache import SummaryCache, default_cache
from omgm.downloads.hub import local_folder
from omgm.settings import GeneratorSettings, Profile, SummarizerSettings


def summarizer(profile: Profile) -> ChatSummarizer:
    """Creates the summarizer.

    Raises:
        ValueError: `summarizer.base_url` or `summarizer.model` is not set.
    """
    settings = profile.summarizer
    client, cut = _client(settings, "summarizer"), _cut(profile, "summarizer")
    path = default_cache() if settings.cache == "auto" else Path(settings.cache)
    cache = None if settings.cache == "none" else SummaryCache(path)
    return ChatSummarizer(client, settings.max_tokens, settings.max_context_tokens, cut, cache)


def generator(profile: Profile, apart: bool) -> ChatGenerator:
    """Creates the generator, which runs on its server either way.

    Raises:
        ValueError: `generator.base_url` or `generator.model` is not set.
    """
    settings = profile.generator
    return ChatGenerator(
        _client(settings, "generator"),
        style_for(settings.style),
        settings.multimodal,
        settings.max_tokens,
        settings.max_context_tokens,
        _cut(profile, "generator"),
        settings.images,
    )


def build_planner(profile: Profile) -> ChatClient:
    """Creates the client of the chat model that plans for agents: the generator's server and model.

    Raises:
        ValueError: `generator.base_url` or `generator.model` is not set.
    """
    return _client(profile.generator, "generator", "an agent")


def _client(
    settings: GeneratorSettings | SummarizerSettings, section: str, user: str = 'a kind of "openai"'
) -> ChatClient:
    for key in ("base_url", "model"):
        if not getattr(settings, key):
            raise ValueError(f"{section}.{key} is not set; {user} needs it")
    return ChatClient(
        settings.base_url,
        settings.model,
        os.environ.get("OPENAI_API_KEY"),
        timeout=settings.timeout_s,
        retries=settings.retries,
        concurrency=settings.concurrency,
        system_role=settings.system_role,
        reasoning_effort=settings.reasoning_effort,
        setting=f"{section}.timeout_s",
        omit=settings.omit,
    )


def _cut(profile: Profile, section: Literal["summarizer", "generator"]) -> Cut:
    tokenizer = getattr(profile, section).tokenizer
    if not tokenizer:
        return cut_characters
    try:
        return token_cut(local_folder(tokenizer, weights=False, options=profile.options))
    except ValueError as error:
        raise ValueError(f"{section}.tokenizer: {error}") from error
