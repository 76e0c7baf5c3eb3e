"""Images padded to a ratio, scaled and cropped: sizes and positions worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from retriever.models.pixels import CLIP_MEAN, CLIP_STD, PixelPreparation

PADDED = PixelPreparation(224, crop=True, target_ratio=1.25)


def columns(image: Image.Image) -> list[int]:
    """Returns which columns of an image are black in every row."""
    values = np.asarray(image)
    return [int(x) for x in np.flatnonzero((values == 0).all((0, 2)))]


def rows(image: Image.Image) -> list[int]:
    return columns(image.transpose(Image.Transpose.TRANSPOSE))


def test_a_long_image_gets_black_above_and_below() -> None:
    # 560 x 200: at least 560 / 1.25 = 448 high, so 248 / 2 = 124 rows above and below; 560 x 448 becomes 280 x 224,
    # where the image lies in rows 62 to 162, and columns 28 to 252 are kept.
    image = PADDED.resize(Image.new("RGB", (560, 200), "white"))
    assert image.size == (224, 224)
    black = rows(image)
    assert set(black) >= set(range(60)) | set(range(164, 224))
    assert not set(black) & set(range(64, 160))
    assert columns(image) == []


def test_a_tall_image_gets_black_on_both_sides() -> None:
    image = PADDED.resize(Image.new("RGB", (200, 560), "white"))
    assert set(columns(image)) >= set(range(60)) | set(range(164, 224))
    assert rows(image) == []


@pytest.mark.parametrize("size", [(224, 224), (300, 250), (249, 200)])
def test_an_image_within_the_ratio_gets_no_black(size: tuple[int, int]) -> None:
    image = PADDED.resize(Image.new("RGB", size, "white"))
    assert image.size == (224, 224)
    assert rows(image) == columns(image) == []


def test_without_scaling_the_image_is_where_it_is_computed_to_be() -> None:
    # 10 x 3 at a ratio of 1.25: (10 / 1.25 - 3) / 2 = 2.5, so 2 rows on both ends: 10 x 7, not resampled at size 7.
    # Of 10 columns 7 are kept, from round(3 / 2) = 2 on.
    values = np.arange(1, 31, dtype=np.uint8).reshape(3, 10)
    image = PixelPreparation(7, crop=True, target_ratio=1.25).resize(Image.fromarray(np.stack([values] * 3, -1)))
    expected = np.zeros((7, 7), np.uint8)
    expected[2:5] = values[:, 2:9]
    assert np.array_equal(np.asarray(image)[..., 0], expected)


@pytest.mark.parametrize(("width", "first"), [(8, 0), (9, 1), (10, 2), (11, 2)])
def test_halves_are_rounded_to_the_even_column(width: int, first: int) -> None:
    # 7 columns are kept of 8 to 11: from 0.5, 1, 1.5 and 2 on.
    values = np.tile(np.arange(width, dtype=np.uint8), (7, 1))
    image = PixelPreparation(7, crop=True, target_ratio=2).resize(Image.fromarray(np.stack([values] * 3, -1)))
    assert np.asarray(image)[0, :, 0].tolist() == list(range(first, first + 7))


def test_black_is_normalized_like_any_color() -> None:
    corner = PADDED([Image.new("RGB", (560, 200), "white")])[0, :, 0, 0]
    expected = [-mean / std for mean, std in zip(CLIP_MEAN, CLIP_STD, strict=True)]
    np.testing.assert_allclose(corner, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [(320, 256), (96, 100), (64, 400), (512, 384), (1024, 768), (1000, 667), (64, 64)])
def test_squashing_by_pytorch_equals_pillow(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    image = Image.fromarray(noise)
    given = PixelPreparation(64).to_uint8([image, image])[1].permute(1, 2, 0).numpy().astype(int)
    difference = np.abs(given - np.asarray(image.resize((64, 64), Image.Resampling.BICUBIC, reducing_gap=3.0)))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.01


def test_it_is_kept_and_loaded(tmp_path: Path) -> None:
    PADDED.save(tmp_path)
    assert PixelPreparation.load(tmp_path) == PADDED
