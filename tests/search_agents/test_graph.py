"""The trail as a graph."""

from __future__ import annotations

import asyncio
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chat_models.replies import ChatReply
from search_agents.engine import Engine
from search_agents.policies import policy_of
from search_agents.tools.images import zoom_in
from search_agents.trail import AgentAnswer
from tests.fakes.planner import Script, ScriptedPlanner, calling, fake_tool, image

SVG = "{http://www.w3.org/2000/svg}"


def run(script: Script) -> AgentAnswer:
    engine = Engine(ScriptedPlanner(script), [fake_tool("text_search", cost=0.5), zoom_in()])
    return asyncio.run(engine.run(policy_of("mmsearch-plus"), "What is it?", image()))


def drawn(answer: AgentAnswer, folder: Path) -> ElementTree.Element:
    answer.write(folder / "trail.svg")
    return ElementTree.parse(folder / "trail.svg").getroot()


def texts(drawing: ElementTree.Element, **attributes: str) -> list[str]:
    return [
        element.text or ""
        for element in drawing.iter(f"{SVG}text")
        if all(element.get(name) == value for name, value in attributes.items())
    ]


def test_rounds_calls_and_what_the_answer_cites(tmp_path: Path) -> None:
    queries = '{"queries": ["a <b> & \\u0000c", "d", "e", "f", "g", "h", "i", "j"]}'
    script: list[str | ChatReply] = [
        calling("text_search", queries),
        calling("zoom_in", '{"box": [0, 0, 90, 60]}'),
        calling("nothing", "{"),
        "I wait.",
        calling("text_search", '{"queries": ["i"]}'),
        "<answer>x [1]. y [7, 9].</answer>",
    ]
    drawing = drawn(run(script), tmp_path)
    said = texts(drawing)
    assert "Answer (mmsearch-plus): x. y." in said and "Cited, but not found: 9" in said
    assert "Round 1: costs 0.5" in said and "and 1 more" in said
    assert texts(drawing, fill="#2c7a2c") == [
        "[1] a ‹b› & \ufffdc (https://kb/a <b> & \ufffdc)", "[7] i (https://kb/i)", "[1] a ‹b› & \ufffdc", "[7] i",
    ]  # fmt: skip
    paths = [path.get("stroke") for path in drawing.iter(f"{SVG}path")]
    assert paths.count("#2c7a2c") == 2  # from where each source was first found to the answer
    assert paths.count("#777") == 4 and paths.count("#555") == 7  # calls; question, six rounds and answer
    fills = [box.get("fill") for box in drawing.iter(f"{SVG}rect")]
    assert fills.count("#fbe3e3") == 1 and fills.count("#fdeeda") == 1  # a failed call, a malformed reply
    assert len(list(drawing.iter(f"{SVG}image"))) == 2  # the question's image and the zoomed one


def test_nothing_overlaps_and_all_is_inside(tmp_path: Path) -> None:
    script = [calling("text_search", f'{{"queries": ["{"long " * 90}{n}"]}}', "thought " * 200) for n in range(3)]
    drawing = drawn(run([*script, "<answer>unknown</answer>"]), tmp_path)
    boxes = [
        [int(box.get(name) or 0) for name in ("x", "y", "width", "height")]
        for box in drawing.iter(f"{SVG}rect")
        if box.get("x")
    ]
    width, height = int(drawing.get("width") or 0), int(drawing.get("height") or 0)
    for at, (x, y, wide, high) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + wide <= width and y + high <= height
        for left, top, across, down in boxes[:at]:
            assert x + wide <= left or left + across <= x or y + high <= top or top + down <= y
    assert any(text.startswith("Answer (mmsearch-plus): none") for text in texts(drawing))


def test_a_wide_script_fits_its_box(tmp_path: Path) -> None:
    answer = run(["<answer>" + "\u5c3c" * 900 + "</answer>"])
    rows = [text for text in texts(drawn(answer, tmp_path)) if "\u5c3c" in text]
    assert len(rows) == 7 and max(map(len, rows)) * 14 <= 1120 and rows[-1].endswith(" \u2026")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"trail\.txt must end in \.json or \.svg"):
        run(["<answer>x</answer>"]).write(tmp_path / "trail.txt")
