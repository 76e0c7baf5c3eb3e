"""Boxes around lines of text, with values worked out by hand, and regions against a flood fill."""

from __future__ import annotations

from math import cos, radians, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retriever.models.text_boxes import TextBox, reading_order, regions, text_boxes
from retriever.types import FloatArray


def flooded(mask: NDArray[np.bool_]) -> set[frozenset[tuple[int, int]]]:
    """Returns the sets of pixels (row, column) that touch each other, also at corners."""
    left, sets = {(int(y), int(x)) for y, x in np.argwhere(mask)}, set()
    while left:
        region, todo = set(), [left.pop()]
        while todo:
            y, x = todo.pop()
            region.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            todo += near
        sets.add(frozenset(region))
    return sets


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_regions_are_those_of_a_flood_fill(height: int, width: int, share: float, seed: int) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    starts, ends, labels = regions(mask)
    sets: dict[int, set[tuple[int, int]]] = {}
    for start, end, label in zip(starts.tolist(), ends.tolist(), labels.tolist(), strict=True):
        sets.setdefault(label, set()).update(divmod(pixel, width) for pixel in range(start, end))
    assert {frozenset(pixels) for pixels in sets.values()} == flooded(mask)
    assert sorted(sets) == list(range(len(sets)))


def test_a_snake_is_one_region() -> None:
    mask = np.ones((41, 40), bool)
    mask[1::4, :-1] = mask[3::4, 1:] = False
    assert set(regions(mask)[2].tolist()) == {0}


def test_an_upright_line() -> None:
    probabilities = np.zeros((60, 100), np.float32)
    probabilities[20:30, 10:50] = 0.9
    # 40 by 10 pixels, 400 in 100 of perimeter: each side moves by 1.6 * 400 / 100.
    assert text_boxes(probabilities) == [TextBox(30, 25, 52.8, 22.8, 0)]
    assert TextBox(30, 25, 52.8, 22.8, 0).extent == pytest.approx((3.6, 13.6, 56.4, 36.4))


@pytest.mark.parametrize("angle", [-40, -20, -7, 3, 12, 20, 33])
def test_a_rotated_line(angle: int) -> None:
    [box] = text_boxes(line(angle, 120, 16))
    assert abs(box.angle - angle) <= 1
    grown = 1.6 * 121 * 17 / 138  # with half a pixel around the centers
    assert (box.x, box.y) == pytest.approx((100, 100), abs=1)
    assert (box.width, box.height) == pytest.approx((121 + grown, 17 + grown), abs=0.5)


def line(angle: float, width: float, height: float) -> FloatArray:
    """Returns a map with ones at the pixels whose centers are in a rectangle around (100, 100)."""
    y, x = np.mgrid[0:200, 0:200] + 0.5 - 100
    along = x * cos(radians(angle)) + y * sin(radians(angle))
    aside = y * cos(radians(angle)) - x * sin(radians(angle))
    inside: FloatArray = ((abs(along) <= width / 2) & (abs(aside) <= height / 2)).astype(np.float32)
    return inside


def test_the_faint_and_the_small_are_left_out() -> None:
    probabilities = np.zeros((60, 100), np.float32)
    assert text_boxes(probabilities) == []
    probabilities[5:15, 10:50] = 0.45  # above the threshold, but not sure on average
    probabilities[30:32, 10:50] = 1  # two pixels high
    assert text_boxes(probabilities) == []


def test_a_box_in_a_larger_image() -> None:
    assert TextBox(10, 20, 30, 8, 0).scaled(2, 3) == TextBox(20, 60, 60, 24, 0)
    turned = TextBox(10, 20, 30, 8, 10).scaled(2, 2)
    assert (turned.x, turned.y, turned.angle) == (20, 40, 10)
    assert (turned.width, turned.height) == pytest.approx((60, 16))


def test_rows_are_read_from_left_to_right() -> None:
    title, left, right, low = (0.1, 0.0, 0.9, 0.2), (0.1, 0.31, 0.4, 0.4), (0.5, 0.3, 0.9, 0.41), (0.0, 0.6, 0.2, 0.7)
    assert reading_order([low, right, title, left]) == [2, 3, 1, 0]
    assert reading_order([]) == []
