"""The training objective of step 2's pretraining: every question against the sections of the whole batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from pretraining.fusion_batches import SECTIONS, FusionBatch
from retriever.models.precision import autocast, fastest_dtype
from retriever.models.qformer import QFormerFusion

TEMPERATURE = 0.05
ALPHA = 0.8  # weight of step 1 in the trained scores; the embedded profile has 0.75
FUSED_TEMPERATURE = 0.02
DIVERSITY = 0.5
QUESTION_TOKENS = 32
SECTION_TOKENS = (32, 32, 64, 64, 96)
"""Maximum section length by step, in rotation: a step takes as long as its longest text, and most of the signal is in
the images."""


class FusionPretraining(nn.Module):
    """A fusion encoder whose tokens are centered over the batch during training.

    The loss includes the sum of both steps' scores, so that step 2 learns to tell apart what step 1 confuses.
    """

    def __init__(self, fusion: QFormerFusion, first: Callable[[Tensor], Tensor]):
        super().__init__()
        self.fusion, self.first = fusion, first

    def train(self, mode: bool = True) -> FusionPretraining:
        """Sets training mode except for the image tower, whose norms keep their statistics; returns itself."""
        super().train(mode)
        self.fusion.vision.eval()
        return self

    def tokens(self, batch: FusionBatch, section_tokens: int) -> tuple[Tensor, Tensor]:
        """Returns the tokens of questions [N, 32, H] and sections [N * SECTIONS, 32, H], not normalized."""
        with autocast("cpu", fastest_dtype("cpu")):
            features = self.fusion.vision(self._shown(batch)).last_hidden_state.float()
            photographs, keys = features.chunk(2)
            asked = self.fusion.fuse_tokens(photographs, *self.fusion.tokenize(batch.questions, QUESTION_TOKENS))
            keys = keys.repeat_interleave(SECTIONS, dim=0)
            told = self.fusion.fuse_tokens(keys, *self.fusion.tokenize(batch.sections, section_tokens))
        return asked.float(), told.float()

    def loss(self, batch: FusionBatch, step: int) -> Tensor:
        """Returns equation 6's loss over the sections of the whole batch, and over its questions for each evidence.

        Each token's mean over the batch is subtracted first; otherwise, what all images and texts share would dominate
        every cosine. Similar tokens within a pair are penalized, since MaxSim alone does not require diverse ones: a
        single vector of the whole image, repeated in all tokens, would discriminate images nearly as well.
        """
        asked, told = centered(*self.tokens(batch, SECTION_TOKENS[step % len(SECTION_TOKENS)]))
        sim_m = max_sim(asked, told)
        sim_c = self._first_scores(batch).repeat_interleave(SECTIONS, dim=1)
        unlike = batch.alike.repeat_interleave(SECTIONS, dim=1)
        alone = _contrast(sim_m / TEMPERATURE, unlike)
        fused = _contrast((ALPHA * sim_c + (1 - ALPHA) * sim_m) / FUSED_TEMPERATURE, unlike)
        return (alone + fused + DIVERSITY * (_squared_within(asked) + _squared_within(told))) / 2

    def _shown(self, batch: FusionBatch) -> Tensor:
        return self.fusion.pixels.normalize(torch.cat([batch.photographs, batch.keys]))

    @torch.no_grad()
    def _first_scores(self, batch: FusionBatch) -> Tensor:
        """Returns step 1's similarity of photographs and main images, float32 [N, N]."""
        with autocast("cpu", fastest_dtype("cpu")):
            vectors = self.first(self._shown(batch)).float()
        photographs, keys = functional.normalize(vectors, dim=-1).chunk(2)
        return photographs @ keys.T

    @torch.no_grad()
    def center(self, batches: list[FusionBatch]) -> None:
        """Sets the means that the encoder subtracts from its tokens, those of the batches."""
        assert self.fusion.token_mean is not None  # encoders made by `create` are centered
        self.eval()
        found = [torch.cat(self.tokens(batch, SECTION_TOKENS[-1])) for batch in batches]
        self.fusion.token_mean.add_(torch.cat(found).mean(dim=0, keepdim=True))

    @torch.no_grad()
    def metrics(self, batches: list[FusionBatch]) -> dict[str, float]:
        """Returns the shares of right entities by kind and of right sections, and the mean cosine within a pair."""
        hits, first, fused, evidence, cosines = [], [], [], [], []
        for batch in batches:
            asked, told = centered(*self.tokens(batch, SECTION_TOKENS[-1]))
            count = len(asked)
            similarities = max_sim(asked, told).view(count, count, SECTIONS)
            every = torch.arange(count)
            sim_m = similarities.amax(-1)
            sim_c = self._first_scores(batch)
            hits.append(sim_m.argmax(1) == every)
            first.append(sim_c.argmax(1) == every)
            fused.append((ALPHA * sim_c + (1 - ALPHA) * sim_m).argmax(1) == every)
            evidence.append(similarities[every, every].argmax(-1) == 0)
            cosines.append(within(asked))
        right = torch.stack(hits).float().mean(0)
        kinds = batches[0].kinds
        return {
            **{kind: float(part.mean()) for kind, part in zip(kinds, right.split([*kinds.values()]), strict=True)},
            "step1": float(torch.stack(first).float().mean()),
            "fused": float(torch.stack(fused).float().mean()),
            "evidence": float(torch.stack(evidence).float().mean()),
            "within": float(torch.stack(cosines).mean()),
        }


def _contrast(logits: Tensor, unlike: Tensor) -> Tensor:
    """Returns the loss of questions among all sections and of evidence among all questions, both [N, N * SECTIONS]."""
    logits = logits.masked_fill(unlike, -torch.inf)
    every = torch.arange(len(logits))
    evidence = every * SECTIONS
    return functional.cross_entropy(logits, evidence) + functional.cross_entropy(logits[:, evidence].T, every)


def centered(asked: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
    """Subtracts each token's mean over both inputs [_, 32, H] and normalizes."""
    mean = torch.cat([asked, told]).mean(dim=0, keepdim=True)
    return functional.normalize(asked - mean, dim=-1), functional.normalize(told - mean, dim=-1)


def max_sim(asked: Tensor, told: Tensor) -> Tensor:
    """Returns equation 4's similarity of unit tokens [B, 32, H] and [N, 32, H], float32 [B, N]."""
    return torch.einsum("bqh,nch->bnqc", asked, told).amax(-1).mean(-1)


def _squared_within(tokens: Tensor) -> Tensor:
    """Returns the mean squared cosine of different unit tokens [N, 32, H] of the same pair, a scalar."""
    count = tokens.shape[1]
    cosines = tokens @ tokens.transpose(1, 2)
    return (cosines.square().sum((1, 2)).mean() - count) / (count * (count - 1))


def within(tokens: Tensor) -> Tensor:
    """Returns the mean cosine of different unit tokens [N, 32, H] of the same pair, a scalar."""
    count = tokens.shape[1]
    cosines = tokens @ tokens.transpose(1, 2)
    return (cosines.sum((1, 2)).mean() - count) / (count * (count - 1))
