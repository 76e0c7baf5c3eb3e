"""The models of step 3: words, meanings, and cross-encoders."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError

from omgm.kinds import SectionKind
from omgm.parts import loaded, model_folder, placement
from omgm.profile import is_folder
from omgm.settings import Profile
from retriever import protocols
from retriever.base_models import bases
from retriever.models import bm25
from retriever.models.cross_encoder import CrossEncoderReranker, FlagReranker
from retriever.models.hybrid import HybridReranker
from retriever.models.section_encoder import SectionEncoder
from retriever.models.text_embedding import MODULES, TextEmbedding
from retriever.models.yes_no import load_reranker
from retriever.protocols import TextReranker


def section_encoder(profile: Profile) -> protocols.SectionEncoder:
    """Loads the encoder of a hybrid step 3, whose vectors of sections an index stores."""
    settings = profile.sections
    if settings.base_url:
        from omgm.kinds.served import sections  # only here, as others do without a server

        return sections(profile)
    if not settings.model:
        raise ValueError(f'profile {profile.name}: sections.model is not set; sections.kind = "hybrid" needs it')
    on_hub = settings.model not in bases() and not is_folder(settings.model)
    model = str(model_folder(profile, "sections")) if on_hub else settings.model
    return _load(profile.name, model, *placement(profile), settings.max_tokens)


@lru_cache(maxsize=2)  # whoever searches an index and changes it needs it twice
def _load(profile: str, model: str, device: str, dtype: torch.dtype, max_tokens: int) -> protocols.SectionEncoder:
    folder = Path(model).expanduser()
    try:
        if (folder / MODULES).is_file():
            return TextEmbedding.load(folder, device, dtype, max_tokens)
        return SectionEncoder.load(folder if is_folder(model) else model, device, dtype)
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(
            f"profile {profile}: sections.model: {model}: a file is damaged ({error}); fetch or train it again"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"profile {profile}: sections.model: {error}; without it, --set sections.kind=bm25 compares words only"
        ) from error


def _hybrid(profile: Profile) -> TextReranker:
    encoder, weight = section_encoder(profile), profile.sections.cosine_weight
    if isinstance(encoder, SectionEncoder):  # the base models read English
        return HybridReranker(encoder, weight)
    return HybridReranker(encoder, weight, reads=lambda question: True)


def _cross_encoder(load: Callable[..., TextReranker]) -> Callable[[Profile], TextReranker]:
    def make(profile: Profile) -> TextReranker:
        device, dtype = placement(profile)
        chosen = dtype if profile.sections.dtype == "auto" else getattr(torch, profile.sections.dtype)
        reranker = loaded(profile, "sections", load, device, chosen, profile.sections.max_tokens)
        if profile.cuda_graphs and isinstance(reranker, CrossEncoderReranker):
            reranker.use_cuda_graphs()
        return reranker

    return make


BM25 = SectionKind(lambda profile: bm25.BM25())
HYBRID = SectionKind(_hybrid, section_encoder)
CROSS_ENCODER = SectionKind(_cross_encoder(load_reranker))
FLAG = SectionKind(_cross_encoder(FlagReranker.load))
