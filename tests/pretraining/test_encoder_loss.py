"""The loss of step 1's pretraining."""

from __future__ import annotations

import torch

from pretraining.encoder_loss import image_vectors
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig


def test_a_step_may_read_images_at_another_size_than_the_model() -> None:
    """The vectors equal those of the model after `resize_images`, and gradients reach the model's own positions."""
    torch.manual_seed(0)
    model = SmallCLIP(SmallCLIPConfig(image_size=32, channels=(4, 4, 8, 8), vision_heads=2, vocab_size=9))
    encoder = ClipEncoder(model, None, PixelPreparation(32), 8, "test")
    images = torch.rand(3, 3, 48, 48)
    vectors = image_vectors(encoder, images, 48)
    vectors.square().sum().backward()
    positions = model.vision_model.positions.grad
    assert positions is not None and positions.shape == (1, 5, 8) and bool(positions.abs().sum() > 0)
    assert model.config.image_size == 32
    model.resize_images(48)
    with torch.no_grad():
        assert torch.allclose(vectors, model.get_image_features(encoder.pixels.normalize(images)), atol=1e-6)
