"""The small CLIP: images of another size."""

from __future__ import annotations

import pytest
import torch

from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig


def _model(image_size: int = 32) -> SmallCLIP:
    torch.manual_seed(0)
    return SmallCLIP(SmallCLIPConfig(image_size=image_size, channels=(4, 4, 8, 8), vision_heads=2, vocab_size=9))


def test_resized_positions_keep_the_corners_order() -> None:
    model = _model()
    pool = model.vision_model.positions[:, :1].clone()
    ramp = torch.tensor([[0.0, 1.0], [2.0, 3.0]])  # a 2 x 2 grid, the same value in all channels
    with torch.no_grad():
        model.vision_model.positions[:, 1:] = ramp.reshape(1, 4, 1)
    model.resize_images(64)
    grid = model.vision_model.positions.detach()[0, 1:, 0].view(4, 4)
    assert torch.equal(model.vision_model.positions[:, :1], pool)
    assert (grid.diff(dim=0) > 0).all() and (grid.diff(dim=1) > 0).all()
    assert float(grid.mean()) == pytest.approx(1.5)  # a symmetric kernel keeps the mean
    assert model.config.image_size == 64
    assert model.get_image_features(torch.zeros(1, 3, 64, 64)).shape == (1, 128)


def test_the_same_size_changes_nothing() -> None:
    model = _model()
    before = model.vision_model.positions.clone()
    model.resize_images(32)
    assert torch.equal(model.vision_model.positions, before)


@pytest.mark.parametrize("size", [0, 40, -16])
def test_a_size_that_no_cell_divides_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"multiple of 16, got {size}"):
        _model().resize_images(size)
