"""The small CLIP: images of another size, and its image tower with fused operations."""

from __future__ import annotations

import copy

import pytest
import torch

from retriever.models import fused_convolutions
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig, SmallVision


def _model() -> SmallCLIP:
    torch.manual_seed(0)
    return SmallCLIP(SmallCLIPConfig(image_size=32, channels=(4, 4, 8, 8), vision_heads=2, vocab_size=9))


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


def _trained_tower() -> SmallVision:
    """Returns a tower whose batch norms have random statistics and weights, none at their initial values."""
    torch.manual_seed(1)
    tower = SmallVision(SmallCLIPConfig(image_size=32, channels=(4, 6, 8, 16), vision_heads=2, vocab_size=9))
    for module in tower.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.2, 3)
            with torch.no_grad():
                module.weight.uniform_(-1.5, 1.5)
                module.bias.normal_()
    return tower.eval()


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("size", [32, 64])
def test_a_fused_tower_returns_the_same(size: int, onednn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not onednn:
        monkeypatch.setattr(fused_convolutions, "onednn_computes", lambda *_: False)
    tower = _trained_tower()
    pixels = torch.randn(6, 3, size, size)
    expected = tower(pixels).last_hidden_state.detach()
    tower.fuse("cpu", torch.float32)
    with torch.inference_mode():
        for count in (6, 1, 2, 1):
            given = tower(pixels[:count]).last_hidden_state
            torch.testing.assert_close(given, expected[:count], atol=2e-5, rtol=1e-5)


def test_a_fused_tower_can_be_copied() -> None:
    tower = _model().vision_model.eval()
    tower.fuse("cpu", torch.float32)
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = tower(images).last_hidden_state  # converts weights to oneDNN's layout, which cannot be copied
        assert torch.equal(copy.deepcopy(tower)(images).last_hidden_state, expected)


def test_fused_weights_are_rounded_once() -> None:
    pixels = torch.randn(4, 3, 32, 32)
    exact = _trained_tower().stages(pixels).detach()
    error = []
    for fused in (False, True):
        rounded = _trained_tower()
        if fused:
            rounded.fuse("cpu", torch.bfloat16)
        rounded.to(torch.bfloat16)
        hidden = pixels.bfloat16().contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            for stage in rounded._fused or rounded.stages:
                hidden = stage(hidden)
        error.append(float((hidden.float() - exact).norm() / exact.norm()))
    assert error[1] < min(error[0], 0.02)


def test_a_fused_tower_is_saved_and_trained_as_before() -> None:
    tower, plain = _trained_tower(), _trained_tower()
    tower.fuse("cpu", torch.float32)
    assert all(torch.equal(tensor, plain.state_dict()[name]) for name, tensor in tower.state_dict().items())
    pixels = torch.randn(3, 3, 32, 32)
    results = []
    for one in (tower, plain):
        one.train()(pixels).pooler_output.square().sum().backward()
        results.append({name: parameter.grad for name, parameter in one.named_parameters()})
    torch.testing.assert_close(results[0], results[1])
