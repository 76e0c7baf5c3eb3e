"""Builds the models and clients that a profile describes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from safetensors import SafetensorError

from chat_models.context import Cut, cut_characters, token_cut
from chat_models.prompts import style_for
from generators.guard import GuardedGenerator
from generators.reader.process import ReaderProcess
from generators.reader.reader import ExtractiveReader
from indexes.builder.chat_summarizer import ChatSummarizer
from indexes.builder.summarizers import ExtractiveSummarizer, Summarizer
from indexes.builder.summary_cache import SummaryCache, default_cache
from omgm.downloads.hub import local_folder
from omgm.profile import device_of, is_folder, sees_gpu
from omgm.settings import GeneratorSettings, Profile, SummarizerSettings
from retriever.gpu import prepare_gpu
from retriever.image_cache import ImageCache
from retriever.models.bm25 import BM25
from retriever.models.cross_encoder import CrossEncoderReranker, FlagReranker
from retriever.models.encoder import ClipEncoder
from retriever.models.hybrid import HybridReranker
from retriever.models.precision import fastest_dtype
from retriever.models.qformer import QFormerFusion
from retriever.models.section_encoder import SectionEncoder
from retriever.protocols import DualEncoder, FusionEncoder, Generator, TextReranker

if TYPE_CHECKING:
    from chat_models.chat import ChatClient  # needs httpx, which builds and evaluations on a GPU machine do without

Model = TypeVar("Model")


def build_encoder(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Loads the model of step 1, which caches what it computes from images in `cache`."""
    device, dtype = placement(profile)
    settings = profile.encoder
    load = partial(
        ClipEncoder.load, long_texts=settings.long_texts, key_sizes=settings.key_sizes, fused=True, fp8=settings.fp8
    )
    encoder = _loaded(profile, "encoder", load, device, dtype)
    encoder.cache = cache
    if profile.cuda_graphs:
        encoder.use_cuda_graphs()
    return encoder


def build_fusion(profile: Profile, cache: ImageCache | None = None) -> FusionEncoder:
    """Loads the model of step 2, which caches what it computes from images in `cache`."""
    fusion = _loaded(profile, "fusion", partial(QFormerFusion.load, fused=True), *placement(profile))
    fusion.cache = cache
    if profile.cuda_graphs:
        fusion.use_cuda_graphs()
    return fusion


def build_text_reranker(profile: Profile) -> TextReranker:
    """Loads the model of step 3."""
    if profile.sections.kind == "bm25":
        return BM25()
    if profile.sections.kind == "hybrid":
        return HybridReranker(build_sections(profile), profile.sections.cosine_weight)
    cross = profile.sections.kind == "cross_encoder"
    load: Callable[..., TextReranker] = CrossEncoderReranker.load if cross else FlagReranker.load
    device, dtype = placement(profile)
    chosen = dtype if profile.sections.dtype == "auto" else getattr(torch, profile.sections.dtype)
    return _loaded(profile, "sections", load, device, chosen, profile.sections.max_tokens)


def build_sections(profile: Profile) -> SectionEncoder:
    """Loads the encoder of a hybrid step 3, whose vectors of sections an index stores."""
    if not profile.sections.model:
        raise ValueError(f'profile {profile.name}: sections.model is not set; sections.kind = "hybrid" needs it')
    return _load_sections(profile.name, profile.sections.model, *placement(profile))


@lru_cache(maxsize=2)  # whoever searches an index and changes it needs it twice
def _load_sections(profile: str, model: str, device: str, dtype: torch.dtype) -> SectionEncoder:
    try:
        return SectionEncoder.load(Path(model).expanduser() if is_folder(model) else model, device, dtype)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"profile {profile}: sections.model: {model}: a file is damaged ({error}); fetch or train it again"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"profile {profile}: sections.model: {error}; without it, --set sections.kind=bm25 compares words only"
        ) from error


def build_summarizer(profile: Profile) -> Summarizer:
    """Creates the summarizer.

    Raises:
        ValueError: It is a chat model, and its `base_url` or `model` is not set.
    """
    settings = profile.summarizer
    if settings.kind == "openai":
        client, cut = _client(settings, "summarizer"), _cut(profile, "summarizer")
        path = default_cache() if settings.cache == "auto" else Path(settings.cache)
        cache = None if settings.cache == "none" else SummaryCache(path)
        return ChatSummarizer(client, settings.max_tokens, settings.max_context_tokens, cut, cache)
    return ExtractiveSummarizer(settings.max_words)


@contextmanager
def opened_summarizer(profile: Profile) -> Iterator[Summarizer]:
    """Yields the result of `build_summarizer` and closes its connections and cache at the end of the block."""
    summarizer = build_summarizer(profile)
    try:
        yield summarizer
    finally:
        if isinstance(summarizer, ChatSummarizer):
            summarizer.close()


def build_generator(profile: Profile, apart: bool = False) -> Generator:
    """Creates the generator.

    Args:
        profile: The profile.
        apart: Whether to run the extractive reader in its own process, apart from a service's models.

    Raises:
        ValueError: It is a chat model, and its `base_url` or `model` is not set.
    """
    generator = _answering(profile, apart)
    return GuardedGenerator(generator, profile.recognition.threshold) if profile.recognition.fitted_to else generator


def _answering(profile: Profile, apart: bool) -> Generator:
    settings = profile.generator
    if settings.kind == "openai":
        from generators.chat import ChatGenerator

        client, cut = _client(settings, "generator"), _cut(profile, "generator")
        return ChatGenerator(
            client,
            style_for(settings.style),
            settings.multimodal,
            settings.max_tokens,
            settings.max_context_tokens,
            cut,
        )
    return ReaderProcess() if apart else ExtractiveReader()


def model_folder(profile: Profile, section: Literal["encoder", "fusion", "sections", "regions"]) -> Path:
    """Returns the folder of a step's model.

    Raises:
        ValueError: The folder does not exist; the message names the profile and the key.
    """
    try:
        return local_folder(getattr(profile, section).model, options=profile.options)
    except ValueError as error:
        raise ValueError(f"profile {profile.name}: {section}.model: {error}") from error


def _loaded(
    profile: Profile, section: Literal["encoder", "fusion", "sections"], load: Callable[..., Model], *arguments: Any
) -> Model:
    """Loads the model of a step from its folder with `load`.

    Raises:
        ValueError: The folder does not exist, or a file in it is damaged or does not match.
    """
    folder = model_folder(profile, section)
    try:
        return load(folder, *arguments)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"profile {profile.name}: {section}.model: {folder}: a file is damaged ({error}); fetch or train it again"
        ) from error
    except ValueError as error:
        raise ValueError(f"profile {profile.name}: {section}.model: {error}") from error


def placement(profile: Profile) -> tuple[str, torch.dtype]:
    """Returns the device that models run on, see `device_of`, and the dtype of their weights; prepares a GPU.

    Raises:
        ValueError: The profile asks for a GPU, and PyTorch sees none.
    """
    device = device_of(profile)
    if profile.device == "cuda" and not sees_gpu():
        raise ValueError(f"profile {profile.name}: device: {device!r}, but PyTorch sees no GPU; see `omgm doctor`")
    if device != "cpu":
        prepare_gpu()
    return device, fastest_dtype(device) if profile.dtype == "auto" else getattr(torch, profile.dtype)


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
    from chat_models.chat import ChatClient

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
