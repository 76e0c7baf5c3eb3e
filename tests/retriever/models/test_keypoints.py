"""Keypoints are where a thing has blobs and corners, and move with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageFilter

from retriever.models.keypoints import DIMENSION, MOST, Keypoints, find_keypoints


def texture(seed: int = 0, width: int = 320, height: int = 240) -> Image.Image:
    """Returns an image with blobs of several sizes."""
    draw = np.random.default_rng(seed)
    image = Image.new("L", (width, height), 128)
    for cells in (8, 20, 45):
        small = Image.fromarray(draw.integers(0, 256, (cells * 3 // 4, cells), np.uint8))
        image = Image.blend(image, small.resize(image.size, Image.Resampling.BICUBIC), 0.5)
    return image.convert("RGB")


def blob(x: float, y: float, sigma: float, bright: bool = True) -> Image.Image:
    across, down = np.meshgrid(np.arange(200), np.arange(160))
    hill = np.exp(-((across - x) ** 2 + (down - y) ** 2) / (2 * sigma**2))
    return Image.fromarray(np.uint8(100 + 100 * hill if bright else 150 - 100 * hill))


def moved(points: Keypoints, others: Keypoints) -> np.ndarray:
    """Returns which of the points is most like each of the others."""
    return np.asarray((others.descriptors @ points.descriptors.T).argmax(1))


@pytest.mark.parametrize("sigma", [3.0, 5.0, 9.0, 14.0])
@pytest.mark.parametrize("bright", [True, False])
def test_a_blob_is_one_place_of_its_size(sigma: float, bright: bool) -> None:
    points = find_keypoints(blob(90.4, 71.7, sigma, bright))
    assert len(points.places) >= 1  # a round one may have two orientations
    for x, y, scale, _ in points.places.tolist():
        assert (x * 200, y * 200) == pytest.approx((90.4, 71.7), abs=0.3)
        # A difference of Gaussians with blurs s and s * 2 ** (1 / 3) is highest where their geometric mean is the blur
        # of the blob, of which the camera's is part.
        assert scale * 200 * 2 ** (1 / 6) == pytest.approx(math.sqrt(sigma**2 + 0.5**2), rel=0.06)


def test_what_is_plain_or_tiny_has_none() -> None:
    for image in (Image.new("RGB", (400, 300), "teal"), Image.new("L", (1, 1)), texture().resize((20, 15))):
        points = find_keypoints(image)
        assert points.places.shape == (0, 4) and points.descriptors.shape == (0, DIMENSION)


def test_those_that_stand_out_most_are_kept() -> None:
    across, down = np.meshgrid(np.arange(384), np.arange(300))
    hills = np.sin(across * math.pi / 12) * np.sin(down * math.pi / 12)  # of 32 x 25 blobs, fainter to the right
    points = find_keypoints(Image.fromarray(np.uint8(128 + 120 * hills * (1 - across / 500))))
    assert 0.4 < points.places[:, 0].max() < 0.6
    assert len(points.places) == 2 * MOST  # each has two orientations
    assert points.places.dtype == points.descriptors.dtype == np.float32
    assert np.linalg.norm(points.descriptors, axis=1) == pytest.approx(1, abs=1e-5)
    assert (points.descriptors >= 0).all()


def test_a_turned_image_has_the_same_keypoints_turned() -> None:
    image = texture()
    points, turned = find_keypoints(image), find_keypoints(image.transpose(Image.Transpose.ROTATE_270))  # clockwise
    assert len(turned.places) == pytest.approx(len(points.places), rel=0.05)
    rows = moved(points, turned)
    high = 240 / 320
    expected = np.column_stack([high - points.places[rows, 1], points.places[rows, 0]])
    is_same = np.linalg.norm(turned.places[:, :2] - expected, axis=1) < 0.01
    assert is_same.mean() > 0.9
    turns = (turned.places[is_same, 3] - points.places[rows[is_same], 3]) % (2 * math.pi)
    assert np.median(turns) == pytest.approx(math.pi / 2, abs=0.05)


def test_a_smaller_image_has_keypoints_at_the_same_shares() -> None:
    image = texture().filter(ImageFilter.GaussianBlur(1.5))
    points, smaller = find_keypoints(image), find_keypoints(image.resize((224, 168), Image.Resampling.LANCZOS))
    rows = moved(points, smaller)
    is_same = np.linalg.norm(smaller.places[:, :2] - points.places[rows, :2], axis=1) < 0.015
    assert is_same.mean() > 0.7
    assert np.median(smaller.places[is_same, 2] / points.places[rows[is_same], 2]) == pytest.approx(1, abs=0.05)


def test_light_makes_no_difference() -> None:
    image = texture()
    points, darker = find_keypoints(image), find_keypoints(image.point(lambda level: level * 0.6 + 20))
    rows = moved(points, darker)
    assert (np.linalg.norm(darker.places[:, :2] - points.places[rows, :2], axis=1) < 0.005).mean() > 0.95


def test_large_images_cost_no_more_and_show_the_same() -> None:
    image = texture(1, 384, 288)
    large = image.resize((1536, 1152), Image.Resampling.BICUBIC)
    points, same = find_keypoints(image), find_keypoints(large)
    rows = moved(points, same)
    assert (np.linalg.norm(same.places[:, :2] - points.places[rows, :2], axis=1) < 0.01).mean() > 0.85
