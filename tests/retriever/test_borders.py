"""Cropping uniform borders from query images."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from retriever.borders import trim, without_border
from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA, prepare_image
from retriever.types import Query


def card(size: tuple[int, int], box: tuple[int, int, int, int], ground: str = "white") -> Image.Image:
    image = Image.new("RGB", size, ground)
    image.paste("red", box)
    return image


@pytest.mark.parametrize("ground", ["white", "black", "#3080c0"])
def test_what_is_shown_keeps_a_margin_of_the_border(ground: str) -> None:
    image = card((200, 100), (100, 30, 140, 70), ground)
    # 6 % of 40 pixels are 2.4: from 97.6 to 142.4 and from 27.6 to 72.4
    expected = card((44, 44), (2, 2, 42, 42), ground)
    assert np.array_equal(np.asarray(trim(image)), np.asarray(expected))


def test_the_margin_ends_with_the_image() -> None:
    assert trim(card((200, 100), (1, 60, 101, 99))).size == (107, 46)  # 6 pixels at the right and above


def test_large_images_are_judged_by_a_small_copy() -> None:
    # reduced by 7 to 286 x 143, in which the square is from 71.4 to 100, and 42.8 to 71.4
    trimmed = trim(card((2000, 1000), (500, 300, 700, 500)))
    assert trimmed.width == pytest.approx(224, abs=15) and trimmed.height == pytest.approx(224, abs=15)


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
    trimmed = trim(prepare_image(drawing))
    assert trimmed.info[ALPHA].size == trimmed.size == (44, 44)
    assert trimmed.info[ALPHA].getbbox() == (2, 2, 42, 42)
