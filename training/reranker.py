"""The model that step 2's training optimizes, and how samples become similarities."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from retriever.models.qformer import QFormerFusion
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity
from training.candidates import Sample, SectionRef, draw_candidates
from training.features import Features, ImageKey
from training.losses import mean_max_sim

CANDIDATES = 16
"""Candidates per question: the evidence and 15 hard negatives."""


class Reranker(nn.Module):
    """The fusion encoder with the learned temperature of equation 6, which only training needs."""

    def __init__(self, fusion: QFormerFusion):
        super().__init__()
        self.fusion = fusion
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.07)))
        self.fusion.vision.requires_grad_(False)

    def train(self, mode: bool = True) -> Reranker:
        """Sets training mode for all but the image tower, which is frozen; returns itself."""
        super().train(mode)
        self.fusion.vision.eval()
        return self

    @property
    def temperature(self) -> Tensor:
        """The divisor of similarities, a scalar."""
        return self.log_temperature.exp()


class SampleScorer:
    """Scores samples with the model in training; each text is tokenized once.

    Args:
        model: The model in training.
        entities: Entities by id.
        features: Features of the questions' images and of the main images.
        max_tokens: Length at which texts are cut.
    """

    def __init__(self, model: Reranker, entities: Mapping[str, Entity], features: Features, max_tokens: int):
        self.model = model
        self.entities = entities
        self.features = features
        self.max_tokens = max_tokens
        self._ids: dict[SectionRef | str, list[int]] = {}

    def similarities(self, samples: Sequence[Sample], rng: random.Random, augmented: bool) -> Tensor:
        """Returns the similarity of each question to its candidates, float32 [B, 16], the positive in column 0."""
        drawn = [draw_candidates(sample, self.entities, rng, CANDIDATES) for sample in samples]
        sections = [section for candidates in drawn for section in candidates]
        query_features = [self.features[ImageKey("query", sample.image_id)] for sample in samples]
        main_features = [self.features[ImageKey("main", section.entity_id)] for section in sections]
        query = self._fuse(query_features, [sample.question for sample in samples], rng if augmented else None)
        candidates = self._fuse(main_features, sections, rng if augmented else None)
        return mean_max_sim(query, candidates.view(len(samples), CANDIDATES, *query.shape[1:]))

    def _fuse(self, features: Sequence[Tensor], texts: Sequence[SectionRef | str], rng: random.Random | None) -> Tensor:
        """Returns the fused tokens of images and texts, [N, Q, H]: of a random view with `rng`, else of the first."""
        fusion = self.model.fusion
        device = fusion.query_tokens.device
        views = torch.stack([views[rng.randrange(len(views)) if rng else 0] for views in features])
        ids = [self._tokens(text) for text in texts]
        padded = torch.full((len(ids), max(map(len, ids))), fusion.tokenizer.pad_token_id)
        mask = torch.zeros_like(padded)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return fusion.fuse_tokens(views.to(device).float(), padded.to(device), mask.to(device))

    def _tokens(self, text: SectionRef | str) -> list[int]:
        if text not in self._ids:
            if isinstance(text, str):
                prepared = blip_caption(text)
            else:
                entity = self.entities[text.entity_id]
                section = entity.sections[text.position]
                prepared = blip_caption(section_passage(entity.title, section.title, section.text))
            tokenizer = self.model.fusion.tokenizer
            limit = min(self.max_tokens, self.model.fusion.max_text_tokens)
            self._ids[text] = tokenizer(prepared, truncation=True, max_length=limit)["input_ids"]
        return self._ids[text]
