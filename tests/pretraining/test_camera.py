"""Batches of photographs: shape, range, repeatability, and flags that stay recognizable."""

from __future__ import annotations

import pytest
import torch

from pretraining.camera import photograph_batch


def _batch(count: int, side: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    drawings = torch.zeros(count, 3, 32, 48, dtype=torch.uint8)
    drawings[:, 0, :, :24] = 255  # hoist red
    drawings[:, 2, :, 24:] = 255  # fly blue
    return drawings, torch.full((count, 3, side, side), 60, dtype=torch.uint8)


def test_batch_shape_range_and_repeatability() -> None:
    drawings, backgrounds = _batch(9)
    result = photograph_batch(drawings, backgrounds, torch.Generator().manual_seed(0))
    assert result.shape == (9, 3, 48, 48) and result.dtype == torch.float32
    assert result.min() >= 0 and result.max() <= 1
    again = photograph_batch(drawings, backgrounds, torch.Generator().manual_seed(0))
    assert torch.equal(result, again)
    assert drawings[0, 0, 0, 0] == 255 and backgrounds.unique().tolist() == [60]


def test_batch_keeps_the_hoist_on_the_left_and_poses_differ() -> None:
    result = photograph_batch(*_batch(32), torch.Generator().manual_seed(1))
    columns = torch.arange(48.0)
    red = (result[:, 0] - result[:, 2]).clamp(min=0).sum(1)
    blue = (result[:, 2] - result[:, 0]).clamp(min=0.1).sub(0.1).sum(1)
    assert ((red * columns).sum(1) / red.sum(1) < (blue * columns).sum(1) / blue.sum(1)).all()
    assert len({round(float(each.mean()), 5) for each in result}) > 25


def test_a_gray_flag_on_gray_stays_nearly_plain() -> None:
    same = torch.full((4, 3, 40, 40), 128, dtype=torch.uint8)
    result = photograph_batch(same[:, :, :20], same, torch.Generator().manual_seed(2))
    assert result.std(dim=(1, 2, 3)).max() < 0.2


def test_given_ratios_shape_the_flag() -> None:
    drawings, backgrounds = _batch(64)
    areas = []
    for ratio in (1.0, 2.0):
        result = photograph_batch(drawings, backgrounds, torch.Generator().manual_seed(3), torch.full((64,), ratio))
        areas.append(float(((result[:, 0] - result[:, 2]).abs() > 0.25).float().mean()))
    assert areas[0] > 1.4 * areas[1]


def test_wrong_batches_are_refused() -> None:
    drawings, backgrounds = _batch(2)
    with pytest.raises(ValueError, match="drawings must be uint8"):
        photograph_batch(drawings.float(), backgrounds, torch.Generator())
    with pytest.raises(ValueError, match="backgrounds must be uint8"):
        photograph_batch(drawings, backgrounds[:1], torch.Generator())


def test_small_drawings_cover_less() -> None:
    drawings, backgrounds = _batch(64)
    covered = []
    for small in (0.0, 1.0):
        result = photograph_batch(drawings, backgrounds, torch.Generator().manual_seed(3), small=small)
        covered.append(float(((result[:, 0] - result[:, 2]).abs() > 0.25).float().mean()))
    # The scale factors are uniform in 0.45 to 1; the mean of their squares is 0.55.
    assert 0.45 < covered[1] / covered[0] < 0.65
