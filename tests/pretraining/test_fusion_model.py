"""Step 2's pretraining: which parameters are trained, and the sum of both steps' scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pretraining.fusion_batches import FusionBatch
from pretraining.fusion_model import FusionPretraining
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion

WEIGHTS = Path(__file__).resolve().parents[2] / "weights" / "embedded"


@pytest.fixture(scope="module")
def encoder() -> ClipEncoder:
    return ClipEncoder.load(WEIGHTS / "encoder")


@pytest.fixture
def fusion() -> QFormerFusion:
    return QFormerFusion.load(WEIGHTS / "fusion").requires_grad_(True)


@pytest.fixture
def first(encoder: ClipEncoder) -> Callable[[Tensor], Tensor]:
    """Step 1's image encoder, for images of step 2's size."""
    size = [encoder.pixels.size] * 2
    return lambda pixels: encoder.model.get_image_features(functional.interpolate(pixels, size))


@pytest.fixture
def batch(fusion: QFormerFusion) -> FusionBatch:
    torch.manual_seed(1)
    images = torch.rand(8, 3, fusion.pixels.size, fusion.pixels.size)
    texts = [f"what is number {number}?" for number in range(4)]
    return FusionBatch(images[:4], images[4:], texts, [*texts, *texts], torch.zeros(4, 4, dtype=torch.bool), {"all": 4})


def test_the_tower_is_trained_and_step_1_is_not(
    encoder: ClipEncoder, fusion: QFormerFusion, first: Callable[[Tensor], Tensor], batch: FusionBatch
) -> None:
    model = FusionPretraining(fusion, first).train()
    model.loss(batch, 0).backward()
    assert fusion.vision.positions.grad is not None and fusion.query_tokens.grad is not None
    assert not any(module.training for module in fusion.vision.modules())  # norms keep their statistics
    assert all(parameter.grad is None for parameter in encoder.model.parameters())


def test_images_that_look_alike_are_no_negatives(
    fusion: QFormerFusion, first: Callable[[Tensor], Tensor], batch: FusionBatch
) -> None:
    """With all others excluded, only an entity's own sections remain to be told apart."""
    alone = replace(
        batch, alike=~torch.eye(4, dtype=torch.bool), sections=[text for text in batch.questions for _ in (0, 1)]
    )
    model = FusionPretraining(fusion, first).eval()
    contrast = float(model.loss(alone, 0).detach()) - 0.5 * _diversity(model, alone)
    # Both sections of an entity are the same text: cross entropy log 2; each evidence has one question left: 0.
    assert contrast == pytest.approx(0.6931, abs=2e-3)


def _diversity(model: FusionPretraining, batch: FusionBatch) -> float:
    """The mean squared cosine of different tokens of a pair, over both sides, computed with loops."""
    both = [tokens.detach() for tokens in model.tokens(batch, 32)]
    means = []
    for side in (tokens - torch.cat(both).mean(0) for tokens in both):
        cosines = [
            float(torch.cosine_similarity(pair[i], pair[j], dim=0)) ** 2
            for pair in side
            for i in range(32)
            for j in range(32)
            if i != j
        ]
        means.append(sum(cosines) / len(cosines))
    return sum(means) / 2
