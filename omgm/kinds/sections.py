"""The models of step 3: words, meanings, and cross-encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError

from omgm.kinds import SectionKind
from omgm.parts import loaded, placement
from omgm.profile import is_folder
from omgm.settings import Profile
from retriever.models.bm25 import BM25
from retriever.models.cross_encoder import CrossEncoderReranker, FlagReranker
from retriever.models.hybrid import HybridReranker
from retriever.models.section_encoder import SectionEncoder
from retriever.protocols import TextReranker


def section_encoder(profile: Profile) -> SectionEncoder:
    """Loads the encoder of a hybrid step 3, whose vectors of sections an index stores."""
    if not profile.sections.model:
        raise ValueError(f'profile {profile.name}: sections.model is not set; sections.kind = "hybrid" needs it')
    return _load(profile.name, profile.sections.model, *placement(profile))


@lru_cache(maxsize=2)  # whoever searches an index and changes it needs it twice
def _load(profile: str, model: str, device: str, dtype: torch.dtype) -> SectionEncoder:
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


def _hybrid(profile: Profile) -> TextReranker:
    return HybridReranker(section_encoder(profile), profile.sections.cosine_weight)


def _cross_encoder(load: Callable[..., TextReranker]) -> Callable[[Profile], TextReranker]:
    def make(profile: Profile) -> TextReranker:
        device, dtype = placement(profile)
        chosen = dtype if profile.sections.dtype == "auto" else getattr(torch, profile.sections.dtype)
        reranker = loaded(profile, "sections", load, device, chosen, profile.sections.max_tokens)
        if profile.cuda_graphs and isinstance(reranker, CrossEncoderReranker):
            reranker.use_cuda_graphs()
        return reranker

    return make


BM25_ALONE = SectionKind(lambda profile: BM25())
HYBRID = SectionKind(_hybrid, section_encoder)
CROSS_ENCODER = SectionKind(_cross_encoder(CrossEncoderReranker.load))
FLAG = SectionKind(_cross_encoder(FlagReranker.load))
