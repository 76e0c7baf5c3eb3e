from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from search_agents.regions import Box, overlay


@pytest.mark.parametrize(
    ("corners", "box"),
    [
        ((10, 20, 30, 40), Box(10, 20, 30, 40)),
        ((30, 40, 10, 20), Box(10, 20, 30, 40)),  # reversed, as one box of MMSearch-Plus is
        ((10.6, 20.2, 29.1, 39.9), Box(10, 20, 30, 40)),
        ((-5, -5, 500, 500), Box(0, 0, 100, 80)),
    ],
)
def test_boxes_are_corrected(corners: tuple[float, ...], box: Box) -> None:
    assert Box.of(corners, (100, 80)) == box


@pytest.mark.parametrize("corners", [(100, 0, 200, 80), (-9, 0, 0, 80), (0, 90, 10, 99), (5, 5, 5, 50)])
def test_boxes_without_a_pixel_are_rejected(corners: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="has no pixel of the image, which is 100 x 80"):
        Box.of(corners, (100, 80))


@pytest.mark.parametrize("corners", [(1, 2, 3), (1, 2, math.nan, 4), (1, 2, math.inf, 4)])
def test_a_box_needs_four_numbers(corners: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="four finite numbers"):
        Box.of(corners, (100, 80))


def test_the_overlay_outlines_and_does_not_fill() -> None:
    image = Image.new("RGB", (400, 300), "white")
    drawn = np.asarray(overlay(image, [Box(50, 50, 350, 250)]))
    assert tuple(drawn[50, 200]) == tuple(drawn[249, 200]) == (0xE6, 0x19, 0x4B)
    assert (drawn[100:240, 100:340] == 255).all()
    assert (drawn[:49] == 255).all()
    assert image.getpixel((50, 50)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "1"])
@pytest.mark.parametrize("size", [(1, 1), (20, 9)])
def test_small_images_of_any_mode_get_an_overlay(mode: str, size: tuple[int, int]) -> None:
    assert overlay(Image.new(mode, size), [Box(0, 0, *size)]).mode == "RGB"
