"""Photographs: size, repeatability, and flags that stay visible."""

from __future__ import annotations

import random

import numpy as np
from PIL import Image

from pretraining.demo.background import background
from pretraining.demo.photo import photograph

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


def test_backgrounds_have_the_size_and_repeat() -> None:
    for seed in range(30):
        image = background(random.Random(seed), (96, 80))
        assert image.mode == "RGB" and image.size == (96, 80)
    one, two = background(random.Random(4)), background(random.Random(4))
    assert np.array_equal(np.asarray(one), np.asarray(two))
