"""MMSearch-Plus with the calls and names of its appendix K."""

from __future__ import annotations

import asyncio

import pytest

from chat_models.replies import ChatReply
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Observation, Source
from search_agents.regions import Box
from search_agents.state import AgentRun, Tool
from search_agents.tools.images import PartArguments, part_of, zoom_in
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, calling, image, last_text

ZOOM = """Tool Call: image_zoom_in_tool

```
{
  "bbox_index": 2,
  "image_name": "image.png",
  "label": "flag"
}
```"""


def run(*replies: str | ChatReply) -> tuple[AgentAnswer, ScriptedPlanner]:
    async def search(arguments: PartArguments, state: AgentRun) -> Observation:
        size = part_of(arguments, state).size
        return Observation(
            (Source(f"a flag of {size[0]} x {size[1]}", "text", "https://web", related="the same colors"),)
        )

    planner = ScriptedPlanner(list(replies))
    engine = Engine(planner, [zoom_in(), Tool("image_search", "", PartArguments, search)])
    boxes = (Box(0, 0, 9, 9), Box(0, 0, 120, 60))
    return asyncio.run(engine.run(MMSearchPlus(), "Which city?", image(), boxes=boxes)), planner


@pytest.mark.parametrize(
    "name", ["image_crop_0_0_120_60", "image_crop_0_0_120_60.png", "he5murslfz_round_1_crop_1.png"]
)
def test_zoom_then_image_search(name: str) -> None:
    """The crop's name as given to the model, or as the paper would call it."""
    call = f'Tool Call: image_search\n\n```\n{{"image_name": "{name}"}}\n```'
    answer, planner = run(ZOOM, call, "So it is. <answer>Sochi [1]</answer>;")
    assert answer.malformed == 0 and answer.answer == "Sochi"
    zoomed = planner.asked[1][-1]["content"]
    assert [part["type"] for part in zoomed] == ["text", "text", "image_url", "text"]
    assert zoomed[1]["text"] == "<zoom_in_image_name>image_crop_0_0_120_60</zoom_in_image_name>\n<image_zoom_in_result>"
    assert last_text(planner.asked[2]) == (
        "<image_search_result>\nResult 1\nexcerpt:\n[1] a flag of 120 x 60 (https://web)\ntext\n"
        "match: the same colors\n</image_search_result>"
    )
    assert answer.claims[0].sources == (1,)


@pytest.mark.parametrize("name", ["other.png", "he5murslfz_round_1_crop_2.png", "x_round_9_crop_1.png"])
def test_an_unknown_image_is_counted_and_told(name: str) -> None:
    answer, planner = run(ZOOM, f'Tool Call: image_search {{"image_name": "{name}"}}', "<answer>x</answer>")
    assert answer.malformed == 1
    assert "there is no image" in last_text(planner.asked[2])


def test_a_zoom_by_the_papers_name_means_the_image_of_the_question() -> None:
    answer, _ = run(ZOOM.replace("image.png", "n5x8zt8dok.png"), "<answer>x</answer>")
    assert answer.malformed == 0 and [*answer.rounds[0].calls[0].observation.images] == ["image_crop_0_0_120_60"]


def test_an_unknown_region_is_counted_and_told() -> None:
    answer, planner = run(ZOOM.replace("2", "7"), "<answer>x</answer>")
    assert answer.malformed == 1 and "there is no region 7; there are 1 to 2" in last_text(planner.asked[1])


SEARCH = "Tool Call: image_search"


@pytest.mark.parametrize("name", ["image_1", "IMG_1.jpg", "query_image", "the image", ""])
def test_names_of_the_only_image(name: str) -> None:
    answer, _ = run(f'{SEARCH} {{"image_name": "{name}"}}', "<answer>x [1]</answer>")
    assert answer.malformed == 0 and answer.sources[0].title == "a flag of 400 x 300"


@pytest.mark.parametrize(
    "arguments",
    ['{"bbox_2d": [0, 0, 120, 60]}', '{"bbox": [[0, 0], [120, 60]]}', '{"image_name": null, "bbox_index": 2}'],
)
def test_parts_as_models_write_them(arguments: str) -> None:
    answer, _ = run(f"{SEARCH} {arguments}", "<answer>x [1]</answer>")
    assert answer.malformed == 0 and answer.sources[0].title == "a flag of 120 x 60"


@pytest.mark.parametrize(
    "reply",
    [
        "answer: Sochi [1]",
        "So it is Sochi.\n\n**Final Answer:** Sochi [1]",
        '{"answer": "Sochi", "citations": [1]}',
        '<tool_call>{"name": "final_answer", "arguments": {"answer": "Sochi [1]"}}</tool_call>',
        calling("answer", '{"answer": "Sochi [1]"}'),
        "<answer>Sochi ['1']</answer>",
        "<answer>Sochi [Result 1]</answer>",
        "<answer>Sochi '[1]'</answer>",
        "The final answer is \\boxed{\\text{Sochi}} [1]",
        "\u6700\u7ec8\u7b54\u6848\uff1aSochi\u30101\u3011",
        '{"thought": "x", "action": "final_answer", "action_input": "Sochi [1]"}',
        '{"action": {"name": "answer", "arguments": {"answer": "Sochi [1]"}}}',
        "<answer>Sochi \u30101\u2020source\u3011</answer>",
    ],
)
def test_answers_as_models_write_them(reply: str | ChatReply) -> None:
    answer, _ = run(SEARCH, reply)
    assert (answer.answer, answer.malformed) == ("Sochi", 0)
    assert answer.claims[0].sources == (1,)


def test_an_answer_in_plain_words_counts_once_the_model_was_told_the_form() -> None:
    answer, planner = run(SEARCH, "I think that it is Sochi [1].")
    assert (answer.answer, answer.malformed, len(planner.asked)) == ("I think that it is Sochi.", 1, 3)
    answer, planner = run(SEARCH, "I look at it again.", "I look at it again.", "<answer>Sochi [1]</answer>")
    assert (answer.answer, answer.malformed, len(planner.asked)) == ("Sochi", 2, 4)


def test_a_reply_that_was_cut_is_told_so() -> None:
    _, planner = run(ChatReply("I think about", ending="cut"), "<answer>x</answer>")
    assert "reached its longest length" in last_text(planner.asked[1])
