"""The content of a trail: steps reported as they happen, thumbnails, arguments, failures."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from chat_models.errors import ChatError
from search_agents.engine import Engine
from search_agents.policies import policy_of
from search_agents.tools.images import rotate, zoom_in
from search_agents.trail import AgentAnswer
from tests.fakes.planner import Script, ScriptedPlanner, calling, fake_tool, image

Steps = list[tuple[str, Mapping[str, Any]]]
ANSWER = "<answer>x [1]</answer>"


def run(script: Script) -> tuple[AgentAnswer, Steps]:
    """Returns a run's answer and the steps that it reported."""
    steps: Steps = []
    engine = Engine(ScriptedPlanner(script), [fake_tool("text_search"), zoom_in(), rotate()])
    policy = policy_of("mmsearch-plus")
    answer = asyncio.run(
        engine.run(policy, "What is it?", image(), watch=lambda name, step: steps.append((name, step)))
    )
    return answer, steps


def size_of(thumbnail: str) -> tuple[int, int]:
    head, _, data = thumbnail.partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
        return opened.size


def test_steps_are_those_of_the_trail() -> None:
    answer, steps = run([calling("text_search", '{"queries": ["a", "b"]}', "I search."), ANSWER])
    assert [name for name, _ in steps] == ["request", "round", "call", "request", "round"]
    trail = answer.as_dict()
    (first, second), told = trail["rounds"], [dict(step) for _, step in steps]
    assert told[0] == {"round": 1, **first["requests"][0]} and told[3] == {"round": 2, **second["requests"][0]}
    decided = {"tool": "text_search", "arguments": {"queries": ["a", "b"]}}
    assert told[1] == {"round": 1, "thought": "I search.", "problem": "", "calls": [decided]}
    assert told[2] == {"round": 1, "position": 0, **first["calls"][0], "found": trail["sources"], "thumbnails": {}}
    assert [source["number"] for source in trail["sources"]] == [1, 2]
    assert told[4] == {"round": 2, "thought": second["thought"], "problem": "", "calls": []}


def test_thumbnails_are_small() -> None:
    _, steps = run([calling("zoom_in", '{"box": [90, 10, 390, 130]}'), calling("rotate", '{"degrees": 90}'), ANSWER])
    zoomed, rotated = (step for name, step in steps if name == "call")
    assert zoomed["arguments"] == {"box": [90, 10, 390, 130]}
    assert {name: size_of(uri) for name, uri in zoomed["thumbnails"].items()} == {"image_crop_90_10_390_130": (240, 96)}
    assert {name: size_of(uri) for name, uri in rotated["thumbnails"].items()} == {"image_rotated_90": (180, 240)}


def test_a_failed_call_shows_the_part_it_looked_at_only_if_there_is_one() -> None:
    _, steps = run([calling("zoom_in", '{"region": 7}'), calling("zoom_in", "{"), calling("nothing"), ANSWER])
    calls = [step for name, step in steps if name == "call"]
    assert [call["thumbnails"] for call in calls] == [{}, {}, {}] and all(call["error"] for call in calls)


def test_arguments_that_are_no_object_stay_text() -> None:
    for written, shown in (("{", "{"), ("[1]", "[1]"), ("7", "7"), ('{"queries": "a"}', {"queries": "a"})):
        _, steps = run([calling("text_search", written), ANSWER])
        assert [step["arguments"] for name, step in steps if name == "call"] == [shown]
    deep = "[" * 100_000
    _, steps = run([calling("text_search", deep), ANSWER])
    assert [step["arguments"] for name, step in steps if name == "call"] == [deep]


def test_a_failure_has_a_name_and_a_reason() -> None:
    answer, _ = run([ChatError("out of memory", "http://model")])
    trail = answer.as_dict()
    assert (trail["stopped"], trail["failure"]) == ("the model failed", "http://model: out of memory")
    assert run([ANSWER])[0].as_dict()["failure"] == ""
