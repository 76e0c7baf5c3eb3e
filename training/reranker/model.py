"""The model that step 2's training optimizes."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.precision import autocast
from retriever.models.qformer import QFormerFusion
from training.attention import short_attention
from training.batch import Targets
from training.losses import contrastive_loss, max_sim, mean_max_sim
from training.reranker.batches import Pairs, SampleBatch, Texts
from training.reranker.in_batch import InBatch

TEMPERATURE = 0.07
"""Initial value of equation 6's T, as in BLIP-2 and the paper's code."""
IN_BATCH_TEMPERATURE = 0.05
"""Initial value of T with the candidates of a whole batch."""
_SMOOTHING = 0.05
"""Label smoothing, because some candidates in a batch resemble the correct one."""


class Reranker(nn.Module):
    """The fusion encoder with the learned temperature of equation 6, which only training needs.

    Args:
        fusion: The encoder; its image tower is frozen.
        log_temperature: Whether to learn the logarithm of the temperature rather than the temperature.
        precision: Dtype of matrix products.
        temperature: The initial temperature.
    """

    def __init__(
        self,
        fusion: QFormerFusion,
        log_temperature: bool = True,
        precision: torch.dtype = torch.bfloat16,
        temperature: float = TEMPERATURE,
    ):
        super().__init__()
        self.fusion = fusion
        self.log_temperature = log_temperature
        self.precision = precision
        start = math.log(temperature) if log_temperature else temperature
        self.learned_temperature = nn.Parameter(torch.tensor(start, device=fusion.query_tokens.device))
        self.fusion.vision.requires_grad_(False)
        last = self.fusion.qformer.layers[-1]
        for unread in (last["intermediate"], last["output"]):  # its outputs for texts are never used
            unread.requires_grad_(False)

    def train(self, mode: bool = True) -> Reranker:
        """Sets training mode for everything except the frozen image tower; returns itself."""
        super().train(mode)
        self.fusion.vision.eval()
        return self

    @property
    def temperature(self) -> Tensor:
        """The divisor of similarities, a scalar."""
        return self.learned_temperature.exp() if self.log_temperature else self.learned_temperature

    def tokens(self, pairs: Pairs) -> Tensor:
        """Fuses pairs of image and text into tokens, float32 [N, 32, H]."""
        device = self.fusion.query_tokens.device
        dtype = torch.float32 if self.precision == torch.float32 else pairs.features.dtype
        features = pairs.features.to(dtype)
        with autocast(device.type, self.precision):
            fused = [
                self.fusion.fuse_tokens(features[texts.image], texts.ids, texts.mask).float() for texts in pairs.texts
            ]
        return torch.cat(fused)

    def similarities(self, batch: SampleBatch) -> Tensor:
        """Returns the similarity of each question to its candidates, float32 [B, 16], the evidence in column 0."""
        tokens = self.tokens(batch.pairs)
        # Not tokens[batch.candidates]: on a CPU, several threads add up its gradient in a random order.
        candidates = tokens.index_select(0, batch.candidates.flatten()).view(*batch.candidates.shape, *tokens.shape[1:])
        return mean_max_sim(tokens.index_select(0, batch.query), candidates)

    def forward(self, batch: SampleBatch) -> Tensor:
        """Returns equation 6's loss of a batch, multiplied by its weight in the step, a scalar."""
        return contrastive_loss(self.similarities(batch), self.temperature) * batch.weight


class InBatchReranker(Reranker):
    """The fusion encoder, image tower included, trained with the candidates of whole batches.

    Args:
        fusion: The encoder.
        precision: Dtype of matrix products.
    """

    def __init__(self, fusion: QFormerFusion, precision: torch.dtype = torch.bfloat16):
        super().__init__(fusion, precision=precision, temperature=IN_BATCH_TEMPERATURE)
        self.fusion.vision.requires_grad_(True)

    def train(self, mode: bool = True) -> InBatchReranker:
        """Sets training mode, also for the image tower; returns itself."""
        super().train(mode)
        self.fusion.vision.train(mode)
        return self

    def forward(self, batch: InBatch) -> Tensor:  # type: ignore[override]  # another kind of batch
        """Returns the loss of a batch, multiplied by its weight in the step, a scalar."""
        device = batch.pixels.device.type
        with autocast(device, self.precision), short_attention(device, self.precision):
            pixels = self.fusion.pixels.normalize(batch.pixels).to(memory_format=torch.channels_last)
            features = self.fusion.vision_features(pixels)
            questions = self._fused(features, batch.questions)
            by_section = self._found(questions, features, batch.sections, batch.evidence)
            by_image = self._found(questions, features, batch.labeled, batch.labeled_gold)
        return (by_section + by_image) * batch.weight

    def _fused(self, features: Tensor, texts: Texts) -> Tensor:
        return self.fusion.fuse_tokens(features[texts.image], texts.ids, texts.mask).float()

    def _found(self, questions: Tensor, features: Tensor, candidates: Texts, targets: Targets) -> Tensor:
        """Returns equation 6's loss of the questions that have a candidate to find, or 0 if none has."""
        if not len(targets):
            return questions.new_zeros(())
        similarities = max_sim(questions[targets.queries], self._fused(features, candidates)) / self.temperature
        return functional.cross_entropy(similarities, targets.keys, label_smoothing=_SMOOTHING)
