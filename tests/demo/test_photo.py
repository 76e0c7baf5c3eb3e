"""Photographs: size, range, repeatability, and flags that stay recognizable."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from PIL import Image

from demo.background import background
from demo.photo import photograph, photograph_batch

FLAT = Image.new("RGB", (300, 200), (220, 20, 20))


def test_photograph_has_the_size_and_repeats_for_a_seed() -> None:
    first = photograph(FLAT, random.Random(1))
    assert (first.mode, first.size) == ("RGB", (320, 256))
    assert np.array_equal(np.asarray(first), np.asarray(photograph(FLAT, random.Random(1))))
    assert not np.array_equal(np.asarray(first), np.asarray(photograph(FLAT, random.Random(2))))


def test_photograph_takes_other_sizes_and_modes() -> None:
    assert photograph(FLAT.convert("RGBA"), random.Random(3), (160, 120)).size == (160, 120)


def test_the_flag_fills_a_good_part_of_the_photograph() -> None:
    for seed in range(8):
        pixels = np.asarray(photograph(FLAT, random.Random(seed)), np.float32)
        reddish = (pixels[..., 0] > 1.6 * pixels[..., 1]) & (pixels[..., 0] > 1.6 * pixels[..., 2])
        assert reddish.mean() > 0.15


def _batch(count: int, side: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    pictures = torch.zeros(count, 3, 32, 48, dtype=torch.uint8)
    pictures[:, 0, :, :24] = 255  # hoist red
    pictures[:, 2, :, 24:] = 255  # fly blue
    return pictures, torch.full((count, 3, side, side), 60, dtype=torch.uint8)


def test_batch_shape_range_and_repeatability() -> None:
    pictures, backgrounds = _batch(9)
    result = photograph_batch(pictures, backgrounds, torch.Generator().manual_seed(0))
    assert result.shape == (9, 3, 48, 48) and result.dtype == torch.float32
    assert result.min() >= 0 and result.max() <= 1
    again = photograph_batch(pictures, backgrounds, torch.Generator().manual_seed(0))
    assert torch.equal(result, again)
    assert pictures[0, 0, 0, 0] == 255 and backgrounds.unique().tolist() == [60]


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
    pictures, backgrounds = _batch(64)
    areas = []
    for ratio in (1.0, 2.0):
        result = photograph_batch(pictures, backgrounds, torch.Generator().manual_seed(3), torch.full((64,), ratio))
        areas.append(float(((result[:, 0] - result[:, 2]).abs() > 0.25).float().mean()))
    assert areas[0] > 1.4 * areas[1]


def test_wrong_batches_are_refused() -> None:
    pictures, backgrounds = _batch(2)
    with pytest.raises(ValueError, match="pictures: must be uint8"):
        photograph_batch(pictures.float(), backgrounds, torch.Generator())
    with pytest.raises(ValueError, match="backgrounds: must be uint8"):
        photograph_batch(pictures, backgrounds[:1], torch.Generator())


def test_backgrounds_have_the_size_and_repeat() -> None:
    for seed in range(30):
        image = background(random.Random(seed), (96, 80))
        assert image.mode == "RGB" and image.size == (96, 80)
    one, two = background(random.Random(4)), background(random.Random(4))
    assert np.array_equal(np.asarray(one), np.asarray(two))
