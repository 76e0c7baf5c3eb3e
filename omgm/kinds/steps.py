"""The steps of retrieval that a profile lists: entity search, fusion rerank, section rerank."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from indexes.store.index import Index
from omgm.steps import StepParts
from retriever.pipeline import Retriever
from retriever.protocols import Align, DualEncoder, LocalEncoder
from retriever.step1_search import EntitySearch, part_scores
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank


def search_step(parts: StepParts) -> EntitySearch:
    """Makes step 1 by the settings in `[encoder]` and `[search]`."""
    step = EntitySearch(parts.encoder, parts.index, parts.profile.search.k, second_network=parts.signs.lead_p != 0)
    if labels := parts.columns.get("image_text"):
        step.by_text = labels.add
    if isinstance(parts.encoder, LocalEncoder) and (encode_parts := parts.encoder.encode_parts) is not None:
        step.propose = part_scores(encode_parts, parts.index)
    return step


def fusion_step(parts: StepParts) -> FusionRerank:
    """Makes step 2 by the settings in `[fusion]`."""
    settings, recognition = parts.profile.fusion, parts.recognition
    within, words = parts.index.manifest.inputs.image_use.within, parts.profile.search.words_weight
    step = FusionRerank(parts.fusion, parts.index, settings.alpha, settings.score_mode, within=within, words=words)
    if recognition is not None and parts.signs.lead_a:
        step.align, step.is_undecided = _align(parts.encoder), recognition.is_undecided
    if recognition is not None and parts.signs.lead_k:
        step.verify, step.is_unsure = parts.columns.get("keypoints"), recognition.is_unsure
    return step


def sections_step(
    parts: StepParts, entities: Annotated[int, Field(ge=1)] = 1, weight: Annotated[float, Field(ge=0, le=1)] = 0.5
) -> SectionRerank:
    """Makes step 3 by the settings in `[sections]`; for several entities, see `SectionRerank`."""
    assert parts.reranker is not None
    return SectionRerank(parts.reranker, parts.index, parts.profile.sections.beta, entities, weight)


def all_signs(retriever: Retriever[Index], encoder: DualEncoder) -> None:
    """Lets a retriever compute all signs, which a fit may weigh."""
    for step in retriever.steps:
        if isinstance(step, EntitySearch):
            step.second_network = True
        if isinstance(step, FusionRerank):
            step.align, step.is_undecided = _align(encoder), bool


def _align(encoder: DualEncoder) -> Align | None:
    return encoder.align if isinstance(encoder, LocalEncoder) else None
