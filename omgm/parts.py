"""Makes the models and clients that a profile describes, each of its kind (`omgm.kinds`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch

from indexes.store.columns import ColumnModel, columns
from omgm.downloads.hub import local_folder
from omgm.kinds import SectionKind, kind_of
from omgm.profile import device_of, sees_gpu
from omgm.settings import Profile
from retriever.asking import Generator
from retriever.gpu import prepare_gpu
from retriever.image_cache import ImageCache
from retriever.models.precision import fastest_dtype
from retriever.protocols import DualEncoder, FusionEncoder, SectionEncoder, Summarizer, TextReranker

Model = TypeVar("Model")


def build_encoder(profile: Profile, cache: ImageCache | None = None) -> DualEncoder:
    """Loads the model of step 1, which caches what it computes from images in `cache`."""
    encoder: DualEncoder = kind_of("omgm.encoders", profile.encoder.kind)(profile, cache)
    return encoder


def build_fusion(profile: Profile, cache: ImageCache | None = None) -> FusionEncoder:
    """Loads the model of step 2, which caches what it computes from images in `cache`."""
    fusion: FusionEncoder = kind_of("omgm.fusions", profile.fusion.kind)(profile, cache)
    return fusion


def build_text_reranker(profile: Profile, kind: str = "") -> TextReranker:
    """Loads the model of step 3, that of the profile or of another kind."""
    return _sections(kind or profile.sections.kind).reranker(profile)


def has_section_encoder(profile: Profile) -> bool:
    """Returns whether step 3 compares vectors of sections, which an index stores."""
    return _sections(profile.sections.kind).encoder is not None


def build_sections(profile: Profile) -> SectionEncoder:
    """Loads the encoder of sections of step 3.

    Raises:
        ValueError: It has none, or the model is missing.
    """
    encoder = _sections(profile.sections.kind).encoder
    if encoder is None:
        raise ValueError(f'profile {profile.name}: sections.kind = "{profile.sections.kind}" has no encoder')
    return encoder(profile)


def build_columns(profile: Profile, names: Container[str] | None = None) -> dict[str, ColumnModel]:
    """Loads the models of the columns that an index of a profile has, or of some of them."""
    models = dict[str, ColumnModel]()
    for name, column in columns().items():
        if names is None or name in names:
            sections = column.open is None and has_section_encoder(profile)
            model = build_sections(profile) if sections else column.open and column.open(profile)
            if model is not None:
                models[name] = model
    return models


def _sections(name: str) -> SectionKind:
    kind = kind_of("omgm.rerankers", name)
    if not isinstance(kind, SectionKind):
        raise ValueError(f"sections.kind: {name!r}: expected an omgm.kinds.SectionKind, got {type(kind).__name__}")
    return kind


def build_summarizer(profile: Profile) -> Summarizer:
    """Creates the summarizer.

    Raises:
        ValueError: It is a chat model, and its `base_url` or `model` is not set.
    """
    summarizer: Summarizer = kind_of("omgm.summarizers", profile.summarizer.kind)(profile)
    return summarizer


def build_generator(profile: Profile, apart: bool = False) -> Generator:
    """Creates the generator.

    Args:
        profile: The profile.
        apart: Whether other processes compute for it if it is a `serving.lanes.BatchedGenerator`, which then needs no
            weights.

    Raises:
        ValueError: It is a chat model, and its `base_url` or `model` is not set.
    """
    generator: Generator = kind_of("omgm.generators", profile.generator.kind)(profile, apart)
    if not profile.recognition.fitted_to:
        return generator
    guarded: Generator = kind_of("omgm.guards", "words" if profile.search.words else "plain")(
        generator, profile.recognition.threshold
    )
    return guarded


def model_folder(profile: Profile, section: Literal["encoder", "fusion", "sections", "regions"]) -> Path:
    """Returns the folder of a step's model.

    Raises:
        ValueError: The folder does not exist; the message names the profile and the key.
    """
    try:
        return local_folder(getattr(profile, section).model, options=profile.options)
    except ValueError as error:
        raise ValueError(f"profile {profile.name}: {section}.model: {error}") from error


def loaded(
    profile: Profile, section: Literal["encoder", "fusion", "sections"], load: Callable[..., Model], *arguments: Any
) -> Model:
    """Loads the model of a step from its folder with `load`.

    Raises:
        ValueError: The folder does not exist, or a file in it is damaged or does not match.
    """
    folder = model_folder(profile, section)
    try:
        return load(folder, *arguments)
    except json.JSONDecodeError as error:
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
