"""Cropping uniform borders from query images."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from retriever.borders import edges_of, trim, without_border
from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA, prepare_image
from retriever.types import Query


def card(size: tuple[int, int], box: tuple[int, int, int, int], ground: str = "white") -> Image.Image:
    """Returns a card with a red rectangle whose upper half is blue."""
    image = Image.new("RGB", size, ground)
    image.paste("red", box)
    image.paste("blue", (*box[:3], (box[1] + box[3]) // 2))
    return image


@pytest.mark.parametrize("ground", ["white", "black", "#3080c0"])
def test_what_is_within_a_border_is_cut_out(ground: str) -> None:
    image = card((200, 100), (100, 30, 140, 70), ground)
    expected = image.crop((101, 31, 139, 69))  # a pixel less on each side, where the border may be mixed in
    assert np.array_equal(np.asarray(trim(image)), np.asarray(expected))


def test_a_frame_around_a_border_is_cut_off_with_it() -> None:
    inner = card((200, 100), (100, 30, 140, 70))
    framed = Image.new("RGB", (400, 240), "black")
    framed.paste(inner, (60, 50))
    assert edges_of(inner) == (101, 31, 139, 69)
    # the frame is cut at 61, 51, where what is left has the same edges; seen twice, it has none
    assert edges_of(framed) == (161, 81, 199, 119)
    assert trim(trimmed := trim(framed)) is trimmed


def test_a_single_color_keeps_a_margin() -> None:
    image = Image.new("RGB", (200, 100), "white")
    image.paste("red", (80, 30, 120, 70))
    # a pixel less, and a margin of 6 % of 40 pixels, rounded to 2
    assert edges_of(image) == (79, 29, 121, 71) and edges_of(trim(image)) is None


@given(
    size=st.tuples(st.integers(12, 400), st.integers(12, 400)),
    box=st.tuples(st.floats(0, 0.8), st.floats(0, 0.8), st.floats(0.05, 1), st.floats(0.05, 1)),
    colors=st.tuples(st.integers(0, 255), st.integers(0, 255)),
)
def test_what_is_cut_once_is_cut_at_all(
    size: tuple[int, int], box: tuple[float, float, float, float], colors: tuple[int, int]
) -> None:
    """Any rectangle of one color on another ends, within the image; a margin that is kept is no border."""
    image = Image.new("RGB", size, (colors[0],) * 3)
    left, top = int(box[0] * size[0]), int(box[1] * size[1])
    image.paste((colors[1],) * 3, (left, top, left + int(box[2] * size[0]), top + int(box[3] * size[1])))
    edges = edges_of(image)
    if edges is not None:
        assert 0 <= edges[0] < edges[2] <= size[0] and 0 <= edges[1] < edges[3] <= size[1]


def test_large_images_are_judged_by_a_small_copy() -> None:
    # reduced by 7 to 286 x 143, in which the rectangle is from 71.4 to 100, and 42.8 to 71.4
    trimmed = trim(card((2000, 1000), (500, 300, 700, 500)))
    assert trimmed.width == pytest.approx(193, abs=7) and trimmed.height == pytest.approx(193, abs=7)


def test_noise_of_jpeg_is_part_of_the_border() -> None:
    file = BytesIO()
    card((240, 240), (88, 88, 152, 152), "#c04090").save(file, "JPEG", quality=40)
    assert max(trim(Image.open(file).convert("RGB")).size) < 100


@pytest.mark.parametrize(
    "image",
    [
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 120, 3), np.uint8)),
        Image.new("RGB", (80, 80), "green"),
        card((100, 100), (2, 2, 98, 98)),  # hardly any border
        card((100, 100), (50, 50, 55, 55)),  # a speck
        card((100, 100), (0, 20, 100, 100)),  # a sky
    ],
    ids=["photograph", "one color", "narrow", "speck", "sky"],
)
def test_other_images_are_returned_themselves(image: Image.Image) -> None:
    assert trim(image) is image
    query = Query(image, "What is it?")
    assert without_border(query) is query


def test_a_trimmed_image_is_cached_apart() -> None:
    image = card((200, 100), (100, 30, 140, 70))
    set_content(image, "abc")
    query = without_border(Query(image, "What is it?", "q"))
    assert content_of(query.image) == "abc trimmed" and content_of(image) == "abc"
    assert (query.question, query.id) == ("What is it?", "q")


def test_transparency_is_cut_with_the_image() -> None:
    drawing = Image.new("RGBA", (200, 100))
    drawing.paste("red", (100, 30, 140, 70))
    drawing.paste("blue", (100, 30, 140, 50))
    trimmed = trim(prepare_image(drawing))
    assert trimmed.info[ALPHA].size == trimmed.size == (38, 38)
    assert trimmed.info[ALPHA].getbbox() == (0, 0, 38, 38)
