"""The tools for an index of the three lands, and for images.

Text is read with the published networks, out of their package: nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from chat_models.replies import ChatReply, ToolCall
from retriever.base_models import TEXT_READER, Base, find_base
from retriever.types import Query, RetrievalResult
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.regions import Box
from search_agents.tools import images
from search_agents.tools.images import ocr, read_lines, rotate, sharpen, sharpened, zoom_in
from search_agents.tools.index import IndexTools
from search_agents.tools.page import open_page, slim
from search_agents.trail import AgentAnswer
from tests.fakes.models import FakeEncoder
from tests.fakes.planner import ScriptedPlanner, calling, last_text
from tests.fakes.searcher import FakeSearcher
from tests.fakes.world import COLORS, FakeIndex, FakeRetriever, write_images


class ExcludingRetriever(FakeRetriever):
    """Leaves out the entities that a query excludes, as step 1 does."""

    def _retrieve(self, query: Query) -> RetrievalResult:
        result = super()._retrieve(query)
        kept = [candidate for candidate in result.candidates if candidate.row not in query.options.exclude]
        return RetrievalResult(result.query_id, kept, {})


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeIndex]:
    yield FakeIndex(write_images(tmp_path_factory.mktemp("images")))


def flag() -> Image.Image:
    """An image that is green except for a red corner of 100 x 100 pixels."""
    image = Image.new("RGB", (400, 300), "green")
    image.paste("red", (0, 0, 100, 100))
    return image


def run(
    index: FakeIndex, *replies: ChatReply | str, boxes: tuple[Box, ...] = (), k: int = 1
) -> tuple[AgentAnswer, list[str], ExcludingRetriever]:
    """Plays replies; returns the answer, what the model read after each, and the retriever."""
    retriever = ExcludingRetriever(index, k=3)

    def retrieve(query: Query) -> RetrievalResult:
        [result] = retriever.retrieve([query])
        return RetrievalResult("", result.candidates[:k], {})

    tools = IndexTools(FakeSearcher(index, retrieve))
    planner = ScriptedPlanner([*replies, "<answer>x</answer>"])
    engine = Engine(planner, [*tools.tools(), open_page([tools.opener]), zoom_in(), rotate(), sharpen(), ocr()])
    answer = asyncio.run(engine.run(MMSearchPlus(), "What is the wave length?", flag(), boxes=boxes))
    return answer, [last_text(asked) for asked in planner.asked[1:]], retriever


def call(tool: str, **arguments: Any) -> ChatReply:
    return calling(tool, json.dumps(arguments))


def titles(answer: AgentAnswer, number: int) -> list[str]:
    """Returns the entities that round `number` found."""
    numbers = [n for record in answer.rounds[number - 1].calls for n in record.numbers]
    return list(dict.fromkeys(answer.sources[n - 1].title for n in numbers))


def test_image_search_of_the_whole_image_and_of_parts(index: FakeIndex) -> None:
    answer, read, _ = run(
        index,
        call("image_search"),
        call("image_search", box=[0, 0, 100, 100]),
        call("image_search", region=1),
        boxes=(Box(0, 0, 90, 90),),
    )
    assert [titles(answer, n) for n in (1, 2, 3)] == [["Greenland"], ["Redland"], ["Redland"]]
    assert "[1] Greenland, Wave (https://kb.example/Greenland)\nthe wave length of green is 530 nm" in read[0]
    assert answer.sources[0].span == (0, len("the wave length of green is 530 nm"))


def test_a_repeated_image_search_finds_others(index: FakeIndex) -> None:
    answer, read, retriever = run(index, *[call("image_search")] * 4)
    assert titles(answer, 1) == ["Greenland"]
    assert sorted(titles(answer, 2) + titles(answer, 3)) == ["Blueland", "Redland"]
    assert titles(answer, 4) == [] and "nothing found" in read[3]
    assert len(retriever.asked) == 4


def test_what_the_caller_excludes_is_not_found(index: FakeIndex) -> None:
    answer, _, _ = run(index, call("image_search", exclude=["Greenland", "https://kb/red", "Nowhere"]))
    assert titles(answer, 1) == ["Blueland"]


def test_the_exclusion_is_per_run_and_image(index: FakeIndex) -> None:
    """Entities found by one image's search are not excluded for another image or the next run."""
    both = [call("zoom_in", box=[150, 150, 250, 250]), call("image_search")]
    both.append(call("image_search", image="image_crop_150_150_250_250"))
    for _ in range(2):
        answer, _, _ = run(index, *both)
        assert [titles(answer, n) for n in (2, 3)] == [["Greenland"], ["Greenland"]]


def test_text_search_needs_no_image(index: FakeIndex) -> None:
    answer, read, retriever = run(index, call("text_search", queries=["wave length of Blueland", "flags of Redland"]))
    assert titles(answer, 1)[0] == "Blueland"
    assert answer.sources[0].section == "Wave"
    assert "[1] Blueland, Wave (https://kb.example/Blueland)\nthe wave length of blue is 470 nm" in read[0]
    assert retriever.asked == []


@pytest.mark.parametrize("query", ['"', "NEAR(", "a* OR -b", "title:x", "?!", "café \x00", "ßß"])
def test_a_query_is_text_not_syntax(index: FakeIndex, query: str) -> None:
    answer, _read, _ = run(index, call("text_search", queries=query))
    assert answer.rounds[0].calls[0].observation.error == ""


def test_find_images_shows_what_has_one(index: FakeIndex) -> None:
    answer, read, _ = run(index, call("find_images", query="flag of one color"))
    assert "find_images: " not in read[0]
    images = answer.rounds[0].calls[0].observation.images
    assert sorted(images) == ["found_0", "found_1"]
    assert images["found_0"].getpixel((5, 5)) == (255, 0, 0)
    assert "found_0 shows Redland" in read[0]


@pytest.mark.parametrize("page", ["Redland", " redland", "https://kb/red", "[1]", "1"])
def test_an_article_is_opened_by_name_and_by_number(index: FakeIndex, page: str) -> None:
    answer, read, _ = run(
        index, call("text_search", queries=["Redland wave"]), call("open_page", page=page, question="When a republic?")
    )
    [record] = answer.rounds[1].calls
    best = answer.sources[record.numbers[0] - 1]
    assert (best.title, best.section) == ("Redland", "History")
    assert "Sections of Redland: Redland; Wave; History; Flag" in read[1]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("image_search", {"region": 3}, "there is no region 3; there are 1 to 1"),
        ("image_search", {"image": "image_2"}, "there is no image 'image_2'; there are image"),
        ("zoom_in", {"box": [500, 0, 600, 50]}, "is not within the image; boxes are x1, y1, x2, y2"),
        ("zoom_in", {}, "zoom_in needs a region or a box"),
        ("rotate", {"degrees": 45}, "wrong arguments of rotate: degrees"),
        ("open_page", {"page": "[9]"}, "there is no result [9]; there are 0"),
        ("open_page", {"page": "Atlantis"}, "there is no page 'Atlantis'; search for it first"),
        ("text_search", {"queries": []}, "wrong arguments of text_search: queries"),
        ("text_search", {"queries": ["a"] * 6}, "wrong arguments of text_search: queries"),
    ],
)
def test_wrong_arguments_are_told(index: FakeIndex, tool: str, arguments: dict[str, Any], told: str) -> None:
    answer, read, _ = run(index, call(tool, **arguments), boxes=(Box(0, 0, 9, 9),))
    assert told in read[0]
    assert answer.answer == "x"


def test_zoom_and_rotate_make_new_images(index: FakeIndex) -> None:
    answer, read, _ = run(
        index,
        call("zoom_in", box=[0, 0, 120, 60]),
        call("rotate", image="image_crop_0_0_120_60", degrees=90),
        call("image_zoom_in_tool", bbox_index=1, image_name="image", label="corner"),
        boxes=(Box(0, 0, 50, 40),),
    )
    images = [seen for one in answer.rounds for record in one.calls for seen in record.observation.images.items()]
    assert [(name, image.size) for name, image in images] == [
        ("image_crop_0_0_120_60", (120, 60)),
        ("image_crop_0_0_120_60_rotated_90", (60, 120)),
        ("image_crop_0_0_50_40", (50, 40)),
    ]
    assert images[1][1].getpixel((59, 0)) == images[0][1].getpixel((0, 0)) == (255, 0, 0)  # clockwise
    assert "New image: image_crop_0_0_120_60" in read[0]


def test_sharpening_enlarges_what_is_small(index: FakeIndex) -> None:
    answer, read, _ = run(index, call("sharpen"), call("sharpen", box=[50, 0, 150, 100]), call("sharpen", region=2))
    whole, part = (one.calls[0].observation.images for one in answer.rounds[:2])
    assert {name: image.size for name, image in whole.items()} == {"image_sharp": (800, 600)}
    assert {name: image.size for name, image in part.items()} == {"image_sharp_50_0_150_100": (400, 400)}
    blurred = Image.new("L", (40, 10), 100)
    for x in range(40):
        blurred.paste(100 + max(0, min(10, x - 15)) * 10, (x, 0, x + 1, 10))
    before, after = (
        np.asarray(one.convert("L"), np.int16)[5] for one in (blurred.resize((160, 40)), sharpened(blurred))
    )
    assert np.abs(np.diff(after[:, None], axis=0)).max() > np.abs(np.diff(before[:, None], axis=0)).max()
    assert "there is no region 2" in read[2]


def test_searches_at_once_of_one_image_are_one(index: FakeIndex) -> None:
    twice = ChatReply("", (ToolCall("image_search", "{}"), ToolCall("image_search", '{"image": "image"}')))
    answer, _, retriever = run(index, twice)
    assert len(retriever.asked) == 1
    assert titles(answer, 1) == ["Greenland"]


def test_the_encoder_of_these_tests_tells_the_colors_apart() -> None:
    vectors = FakeEncoder().encode_texts(COLORS)
    assert (vectors @ vectors.T).round().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


needs_ocr = pytest.mark.skipif(
    not (find_base(TEXT_READER).carrier or find_base(TEXT_READER).folder.is_dir()),
    reason=f"the package {find_base(TEXT_READER).package} is not installed",
)


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
    asked = set[str]()

    def refuse(*arguments: Any) -> None:
        asked.add(threading.current_thread().name)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert told(sign()) == "<ocr_result>\nNiamey 1.3 million\nAgadez 110 thousand\n</ocr_result>"
    assert told(sign(), '{"box": [0, 60, 300, 120]}') == "<ocr_result>\nAgadez 110 thousand\n</ocr_result>"
    assert asked <= {"wait for parts"}  # the thread of a front that an earlier test has not ended yet


@needs_ocr
def test_a_slimmed_page_says_the_same() -> None:
    assert read_lines(slim(sign(400, 700))) == ["Niamey 1.3 million", "Agadez 110 thousand"]


@needs_ocr
def test_an_image_without_text() -> None:
    assert told(Image.new("L", (64, 48), 200)) == "<ocr_result>\nthere is no text\n</ocr_result>"


def test_long_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "read_lines", lambda image: [str(number) for number in range(150)])
    lines = told(Image.new("RGB", (9, 9))).splitlines()
    assert lines[1:3] == ["0", "1"] and lines[-3:] == ["99", "(50 more lines)", "</ocr_result>"]


def test_without_the_networks_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Base, "carrier", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    images._reader.cache_clear()
    assert "base model pp-ocr-v6-small is not on this machine" in told(Image.new("RGB", (9, 9)))
