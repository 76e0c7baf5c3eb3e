"""Slimming of screenshots: only blank areas are removed."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from search_agents.tools.page import GAP, slices, slim

rng = np.random.default_rng(0)


def page(width: int, height: int, *boxes: tuple[int, int, int, int], color: str = "black") -> Image.Image:
    """Returns a white page with filled boxes (left, top, right, bottom, all inclusive)."""
    image = Image.new("RGB", (width, height), "white")
    for box in boxes:
        ImageDraw.Draw(image).rectangle(box, fill=color)
    return image


def test_blank_rows_and_columns_are_narrowed() -> None:
    """Edges extend one pixel beyond a box; 16 pixels of each blank run remain, 8 at either end."""
    slimmed = slim(page(512, 3000, (100, 200, 399, 219), (100, 1500, 399, 1519)))
    filled = 20 + 2
    assert slimmed.size == (300 + 2 + 2 * GAP, 2 * filled + 3 * GAP)
    found = np.asarray(slimmed.convert("L")) == 0
    assert found.sum() == 2 * 20 * 300  # every black pixel is there
    assert found.any(1).nonzero()[0].tolist() == [*range(17, 37), *range(17 + 38, 37 + 38)]


def test_paragraphs_stay_apart_and_short_gaps_as_they_are() -> None:
    image = page(100, 100, (0, 10, 99, 19), (0, 32, 99, 41))  # 12 white rows between them, 10 of them blank
    slimmed = slim(image)
    rows = (np.asarray(slimmed.convert("L")) == 0).any(1).nonzero()[0]
    assert rows[10] - rows[9] == 13


def test_what_is_not_blank_is_kept_bit_by_bit() -> None:
    noise = Image.fromarray(rng.integers(0, 256, (300, 200, 3), dtype=np.uint8))
    assert np.array_equal(np.asarray(slim(noise)), np.asarray(noise))
    placed = Image.new("RGB", (512, 4000), "white")
    placed.paste(noise, (150, 2000))
    pixels = np.asarray(slim(placed))
    at = np.argwhere(pixels.min(2) < 255).min(0)
    # The noise can start with white pixels, so it is located by its first non-white one.
    assert any(
        np.array_equal(pixels[y : y + 300, x : x + 200], np.asarray(noise))
        for y in range(max(0, at[0] - 2), at[0] + 1)
        for x in range(max(0, at[1] - 2), at[1] + 1)
    )


@pytest.mark.parametrize("color", ["#eeeeee", "#f0f0ff", "yellow"])
def test_pale_texts_are_kept(color: str) -> None:
    """The published code removes them, considers the rest empty, and falls back to the whole page."""
    slimmed = slim(page(512, 2000, (100, 100, 300, 110), (100, 1800, 300, 1810), color=color))
    assert slimmed.height < 100
    assert len(set(map(tuple, np.asarray(slimmed).reshape(-1, 3).tolist()))) == 2


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_pages_of_any_mode(mode: str) -> None:
    """The published code saves a gray page as a column of one pixel."""
    slimmed = slim(page(512, 3000, (100, 200, 399, 219)).convert(mode))
    assert slimmed.size == (300 + 2 + 2 * GAP, 20 + 2 + 2 * GAP)


def test_a_blank_page_is_unchanged() -> None:
    blank = Image.new("RGB", (512, 3000), "#fafafa")
    assert slim(blank) is blank


def test_a_slow_gradient_is_blank_and_no_page_grows() -> None:
    ramp = np.broadcast_to(np.linspace(200, 255, 1000)[:, None, None], (1000, 512, 3)).astype(np.uint8).copy()
    ramp[500:520, 100:200] = 0
    assert slim(Image.fromarray(ramp)).size == (100 + 2 + 2 * GAP, 20 + 2 + 2 * GAP)
    assert slim(page(10, 10, (3, 3, 5, 5))).size == (10, 10)
    assert slim(page(1, 1)).size == (1, 1)


def test_a_page_is_cut_into_slices_from_its_top() -> None:
    assert [part.size for part in slices(page(300, 1100))] == [(300, 512), (300, 512), (300, 76)]
    assert [part.size for part in slices(page(300, 512))] == [(300, 512)]
    assert len(slices(page(10, 9000))) == 10
    image = page(100, 600, (0, 512, 99, 512))
    assert slices(image)[1].getpixel((0, 0)) == (0, 0, 0)
