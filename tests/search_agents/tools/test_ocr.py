"""Reading text with RapidOCR, whose models are part of the package: nothing is downloaded."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from search_agents.browsing.slimming import slim
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.tools import ocr as reading
from search_agents.tools.ocr import has_ocr, ocr, read_lines
from tests.fakes.planner import ScriptedPlanner, calling, last_text

needs_ocr = pytest.mark.skipif(not has_ocr(), reason="needs the extra ocr")


def sign(width: int = 300, height: int = 120) -> Image.Image:
    """An image with two lines of text, far apart if the image is tall."""
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(28)
    draw.text((10, 10), "Niamey 1.3 million", fill="black", font=font)
    draw.text((10, height - 50), "Agadez 110 thousand", fill="#555", font=font)
    return image


def told(image: Image.Image, arguments: str = "{}") -> str:
    planner = ScriptedPlanner([calling("ocr", arguments), "<answer>x</answer>"])
    asyncio.run(Engine(planner, [ocr()]).run(MMSearchPlus(), "What is written?", image))
    return last_text(planner.asked[1])


@needs_ocr
def test_text_is_read_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert told(sign()) == "<ocr_result>\nNiamey 1.3 million\nAgadez 110 thousand\n</ocr_result>"
    assert told(sign(), '{"box": [0, 60, 300, 120]}') == "<ocr_result>\nAgadez 110 thousand\n</ocr_result>"


@needs_ocr
def test_a_slimmed_page_says_the_same() -> None:
    assert read_lines(slim(sign(400, 700))) == ["Niamey 1.3 million", "Agadez 110 thousand"]


@needs_ocr
def test_an_image_without_text() -> None:
    assert told(Image.new("L", (64, 48), 200)) == "<ocr_result>\nthere is no text\n</ocr_result>"


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "read_lines", lambda image: [str(number) for number in range(150)])
    lines = told(Image.new("RGB", (9, 9))).splitlines()
    assert lines[1:3] == ["0", "1"] and lines[-3:] == ["99", "(50 more lines)", "</ocr_result>"]


def test_without_the_extra_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "has_ocr", lambda: False)
    assert "needs the extra ocr: pip install 'omgm[ocr]'" in told(Image.new("RGB", (9, 9)))
