from __future__ import annotations

import asyncio
import base64
import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from chat_models.messages import image_part, sent_size
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.regions import CONVENTIONS, Box, BoxSetting, Convention, box_in, convention_of, described, overlay
from search_agents.tools.images import zoom_in
from tests.fakes.planner import ScriptedPlanner, calling, last_text


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


PHOTO = Image.new("RGB", (4000, 3000), "red")
PHOTO.paste("green", (2000, 0, 4000, 1500))
PHOTO.paste("blue", (0, 1500, 2000, 3000))
PHOTO.paste("yellow", (2000, 1500, 4000, 3000))
YELLOW = (255, 255, 0)


def zoomed(arguments: dict[str, Any], boxes: BoxSetting = "auto", repeated: bool = False) -> tuple[Any, str, str]:
    """Returns the color of the part (or `None`), what the model was told of the image, and of the result."""
    calls = [calling("zoom_in", json.dumps(arguments))] * (1 + repeated)
    planner = ScriptedPlanner([*calls, "<answer>x</answer>"])
    engine = Engine(planner, [zoom_in()], boxes=boxes)
    answer = asyncio.run(engine.run(MMSearchPlus(), "What is at the lower right?", PHOTO))
    images = answer.rounds[repeated].calls[0].observation.images.values()
    color = next(iter(images)).resize((1, 1)).getpixel((0, 0)) if images else None
    return color, last_text(planner.asked[0]), last_text(planner.asked[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("convention", "box", "told"),
    [
        ("pixels", [540, 400, 1000, 750], "in pixels of the image as sent, 1024 x 768"),
        ("thousandths", [540, 540, 980, 980], "from 0 to 1000"),
        ("percent", [54, 54, 98, 98], "from 0 to 100"),
        ("unit", [0.54, 0.54, 0.98, 0.98], "from 0 to 1"),
        ("pixels", [0.54, 0.54, 0.98, 0.98], "1024 x 768"),
        ("thousandths", [[540, 540], [980, 980]], "from 0 to 1000"),
        ("pixels", [[540, 400, 1000, 750]], "1024 x 768"),
        ("pixels", "[540, 400, 1000, 750]", "1024 x 768"),
        ("thousandths", "<|box_start|>(540,540),(980,980)<|box_end|>", "from 0 to 1000"),
        ("pixels", {"x1": 540, "y1": 400, "x2": 1000, "y2": 750}, "1024 x 768"),
        ("pixels", {"x": 540, "y": 400, "width": 460, "height": 350}, "1024 x 768"),
        ("pixels", {"x_min": 540, "y_min": 400, "x_max": 1000, "y_max": 750}, "1024 x 768"),
    ],
)
def test_the_place_that_the_model_meant(convention: BoxSetting, box: object, told: str) -> None:
    color, asked, result = zoomed({"box": box}, convention)
    assert color == YELLOW and told in asked
    assert "New image: image_crop_" in result and "of the width" in result


def test_geminis_boxes_have_rows_first() -> None:
    assert zoomed({"box_2d": [540, 540, 980, 980]})[0] == YELLOW
    assert zoomed({"box_2d": [100, 600, 400, 900]})[0] == (0, 128, 0)  # upper right


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ([2100, 1600, 3900, 2900], "is not within the image"),  # pixels of the original
        ([540, 540, 980, 980], "is not within the image"),  # thousandths
        ([54, 54, 98, 98], "as if it were in percent"),
        ([540, 400, 460, 350], "has no area, or gives its width and height"),
        ([980, 700, 540, 400], "has no area, or gives its width and height"),
        ([-200, 400, 1000, 750], "is not within the image"),
        ([540, 400, 1000], "needs four finite numbers"),
    ],
)
def test_what_fits_no_place_is_asked_back(box: list[float], problem: str) -> None:
    color, _, result = zoomed({"box": box})
    assert color is None and problem in result
    assert "boxes are x1, y1, x2, y2 (left, top, right, bottom) in pixels of the image as sent, 1024 x 768" in result


def test_a_small_box_that_is_repeated_is_meant() -> None:
    assert zoomed({"box": [54, 54, 98, 98]}, repeated=True)[0] == (255, 0, 0)


@pytest.mark.parametrize(
    ("model", "convention"),
    [
        ("Qwen/Qwen2-VL-7B-Instruct", "thousandths"),
        ("Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "pixels"),
        ("qwen2.5vl:7b", "pixels"),
        ("Qwen/Qwen3-VL-8B-Instruct", "thousandths"),
        ("gemini-2.5-flash", "thousandths"),
        ("OpenGVLab/InternVL3-8B", "thousandths"),
        ("zai-org/GLM-4.5V", "thousandths"),
        ("allenai/Molmo-7B-D-0924", "percent"),
        ("llava-hf/llava-1.5-7b-hf", "unit"),
        ("moonshotai/Kimi-VL-A3B-Instruct", "unit"),
        ("gpt-4o", "pixels"),
        ("", "pixels"),
    ],
)
def test_families(model: str, convention: Convention) -> None:
    assert convention_of(model) == convention
    assert convention_of(model, "percent") == "percent"


sides = st.integers(1, 5000)


@given(st.tuples(sides, sides), st.sampled_from(CONVENTIONS), st.data())
def test_a_box_comes_back(size: tuple[int, int], convention: Convention, data: st.DataObject) -> None:
    """A box of the image, written in any convention, is the same within the precision of the convention."""
    limits = (
        sent_size(size)
        if convention == "pixels"
        else {"thousandths": (1000,) * 2, "percent": (100,) * 2, "unit": (1,) * 2}[convention]
    )
    fractions = st.floats(0, 1, allow_subnormal=False)
    left, right = sorted([data.draw(fractions), data.draw(fractions)])
    top, bottom = sorted([data.draw(fractions), data.draw(fractions)])
    corners = [left * limits[0], top * limits[1], right * limits[0], bottom * limits[1]]
    if convention != "unit" and max(corners) <= 1:
        return
    try:
        box = box_in(corners, size, convention, confirmed=True)
    except ValueError:
        assert left == right or top == bottom
        return
    for got, meant, whole in zip(box, (left, top, right, bottom), (*size, *size), strict=True):
        assert abs(got - meant * whole) <= 1.001


@given(st.tuples(sides, sides))
def test_the_size_told_is_the_size_sent(size: tuple[int, int]) -> None:
    assert max(sent_size(size)) <= 1024 and min(sent_size(size)) >= 1
    assert f"{sent_size(size)[0]} x {sent_size(size)[1]}" in described("pixels", size)


def test_an_image_is_sent_in_the_size_that_is_told() -> None:
    for size in ((4000, 3000), (1000, 333), (3001, 7), (640, 480)):
        url = image_part(Image.new("RGB", size))["image_url"]["url"]
        assert Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size == sent_size(size)
