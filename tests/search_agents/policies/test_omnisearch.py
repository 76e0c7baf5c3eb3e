"""OmniSearch with scripted replies in the published forms, and the bugs of the published code."""

from __future__ import annotations

import asyncio
import json

import pytest

from chat_models.replies import ChatReply
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.policies.omnisearch import OmniSearch, read_step
from search_agents.records import Observation
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, Words, calling, fake_tool, image, last_text, text_of

THOUGHT = "<thought> Which country is it? <sub-question> Which country has this flag? </sub-question></thought>\n"
FINAL = "<thought> done </thought><end> Final Answer: Niamey [1] </end>"


def step(action: str) -> str:
    return f"{THOUGHT}<search> {action} </search>"


def run(*replies: str) -> tuple[AgentAnswer, ScriptedPlanner]:
    planner = ScriptedPlanner(list(replies))
    tools = [
        fake_tool("image_search"),
        fake_tool("text_search"),
        fake_tool("find_images", lambda arguments: Observation(text="a picture", images={"found_1": image("blue")})),
    ]
    engine = Engine(planner, tools)
    return asyncio.run(engine.run(OmniSearch(), "What is its capital?", image())), planner


@pytest.mark.parametrize(
    ("action", "tool"),
    [
        ("Image Retrieval with Input Image", ["image_search"]),
        ("image retrieval with input image.", ["image_search"]),
        ("Text Retrieval: capital of Niger", ["text_search"]),
        ("Image Retrieval with Text Query: flag of Niger", ["find_images"]),
        ("No Retrieval", []),
    ],
)
def test_all_four_actions(action: str, tool: list[str]) -> None:
    answer, planner = run(step(action), "It is Niger [1].", FINAL)
    assert [record.call.tool for record in answer.rounds[0].calls] == tool
    assert answer.answer == "Niamey" and answer.malformed == 0
    assert [request.purpose for one in answer.rounds for request in one.requests] == ["plan", "solve", "plan"]
    solving, planning = planner.asked[1], planner.asked[2]
    assert last_text(solving).startswith("Sub-question: Which country has this flag?")
    assert last_text(planning) == "Answer to the sub-question: It is Niger [1]."
    parts = solving[-1]["content"]
    assert sum(part["type"] == "image_url" for part in parts) == (2 if tool == ["find_images"] else 1)


def test_tags_that_are_never_closed() -> None:
    answer, _ = run(
        "<Thought> hm <Sub-Question> Which? <Search> Text Retrieval: Niger", "Niger", "<End> Final Answer: x"
    )
    assert answer.rounds[0].calls[0].call.arguments == {"queries": ["Niger"]}
    assert answer.answer == "x"


def test_a_final_answer_inside_a_thought_ends_nothing() -> None:
    answer, _planner = run(
        "<thought> The Final Answer: is near </thought><search> Text Retrieval: Niger </search>", "Niger", FINAL
    )
    assert answer.answer == "Niamey" and len(answer.rounds) == 2


def test_a_query_ends_with_its_line() -> None:
    answer, _ = run("<search> Text Retrieval: Niger\nI wait for the answer.", "Niger", FINAL)
    assert answer.rounds[0].calls[0].call.arguments == {"queries": ["Niger"]}


def test_what_the_model_makes_up_after_its_search_is_ignored() -> None:
    answer, _ = run(f"{step('Text Retrieval: a')} Result: Paris. <end> Final Answer: Paris </end>", "b", FINAL)
    assert answer.answer == "Niamey"


@pytest.mark.parametrize(
    "reply", ["I do not know", "<search> Google it </search>", "<search> Text Retrieval: </search>", ""]
)
def test_a_reply_without_an_action_is_asked_again(reply: str) -> None:
    answer, planner = run(reply, FINAL)
    assert answer.malformed == 1 and answer.answer == "Niamey"
    assert "Write the step again" in last_text(planner.asked[1])
    assert len(planner.asked) == 2


def test_five_rounds_then_the_last_word_is_the_models() -> None:
    answer, planner = run(*[step("No Retrieval"), "hm"] * 6, "<end> Final Answer: unknown </end>")
    plans = [request for one in answer.rounds for request in one.requests if request.purpose == "plan"]
    assert len(plans) == 6
    assert answer.abstained and answer.stopped == "rounds"
    assert "No more searches" in last_text(planner.asked[-1])


def test_results_that_the_solver_had_no_budget_for_are_not_lost() -> None:
    """The solver's request of about 1,330 tokens exceeds the 8,000 for planning but not the total of 10,000."""
    plan = ChatReply(step("Text Retrieval: a"), prompt_tokens=1_000, completion_tokens=6_000)
    planner = ScriptedPlanner([plan, "solved [1]", "<end> Final Answer: x </end>"])
    engine = Engine(planner, [fake_tool("text_search")])
    answer = asyncio.run(engine.run(OmniSearch(), "What?", image(), budget=Budget(tokens=10_000)))
    assert (answer.answer, answer.stopped) == ("x", "tokens")
    assert "[1] a (https://kb/a)" in last_text(planner.asked[1])
    assert last_text(planner.asked[2]).startswith("Answer to the sub-question: solved [1]")


def test_images_are_limited_per_search_not_per_process() -> None:
    """The published code gives the model no image after two image searches in the whole process."""
    for _ in range(3):
        answer, planner = run(*[step("Image Retrieval with Text Query: flag"), "seen"] * 3, FINAL)
        solving = [asked for asked in planner.asked if "sub-question" in text_of(asked[0])[:40]]
        assert [sum(part["type"] == "image_url" for part in asked[-1]["content"]) for asked in solving] == [2, 2, 2]
        assert answer.answer == "Niamey"


def test_every_message_is_text_or_parts() -> None:
    """The published code puts a tuple into the text of a message."""
    _, planner = run(step("Text Retrieval: a"), "b", step("No Retrieval"), "c", FINAL)
    for message in (message for asked in planner.asked for message in asked):
        content = message["content"]
        assert isinstance(content, str) or all(isinstance(part.get("text", ""), str) for part in content)


def test_a_search_that_fails_is_no_end() -> None:
    planner = ScriptedPlanner([step("Text Retrieval: a"), "nothing", FINAL])

    def fail(arguments: Words) -> OSError:
        return OSError("status 503")

    engine = Engine(planner, [fake_tool("text_search", fail)])
    answer = asyncio.run(engine.run(OmniSearch(), "What?", image()))
    assert answer.answer == "Niamey"
    assert "text_search: status 503" in last_text(planner.asked[1])


def test_steps_are_read_by_their_tags() -> None:
    assert read_step("Final Answer: Paris") == ("", "", "", "Paris")
    assert read_step("so Final Answer: Paris") == ("", "", "", None)
    assert read_step("<thought>a</thought><end>b</end><search>c</search>") == ("a", "", "", "b")
    assert read_step("<sub-question;> q </sub-question;>") == ("", "q", "", None)


@pytest.mark.parametrize(
    ("search", "tool", "query"),
    [
        ("Text Retrieval: capital of Niger", "text_search", "capital of Niger"),
        ('"Text Retrieval": "capital of Niger".', "text_search", "capital of Niger"),
        ("1. **Text Retrieval**: capital of Niger", "text_search", "capital of Niger"),
        ("[Text Retrieval] capital of Niger", "text_search", "capital of Niger"),
        ("I use Text Retrieval:\ncapital of Niger", "text_search", "capital of Niger"),
        ("Text Retrieval: a. Image Retrieval with Input Image.", "text_search", "a"),
        ("Image Retrieval with Text Query: flag", "find_images", "flag"),
        ("文本检索\uff1a尼日尔首都。", "text_search", "尼日尔首都"),
        ("文本查询进行图像检索\uff1a国旗", "find_images", "国旗"),
        ("输入图片进行图片检索", "image_search", None),
        ("Text Retrieval[capital of Niger]", "text_search", "capital of Niger"),
        ('Text Retrieval("capital of Niger")', "text_search", "capital of Niger"),
        ("text_retrieval with the query 'capital of Niger'", "text_search", "capital of Niger"),
    ],
)
@pytest.mark.parametrize(
    "tags",
    [
        ("<search>", "</search>"),
        ("< Search >\n", ""),
        ("<搜索>\n", "\n</搜索>"),
        ("Search: ", ""),
        ("**Action:** ", ""),
        ("### Search\n", ""),
    ],
)
def test_actions_as_models_write_them(search: str, tool: str, query: str | None, tags: tuple[str, str]) -> None:
    answer, _ = run(f"{tags[0]}{search}{tags[1]}", "Niger", FINAL)
    [record] = answer.rounds[0].calls
    assert record.call.tool == tool and answer.malformed == 0
    arguments = record.call.arguments
    assert isinstance(arguments, dict)
    assert (arguments.get("queries") or [arguments.get("query")]) == [query]


@pytest.mark.parametrize(
    ("reply", "final"),
    [
        ("<思考>\n整合\n<结束> 最终答案\uff1a尼亚美", "尼亚美"),
        ("<thought> Final Answer: no </thought>\nFinal Answer: yes", "yes"),
        ("<think>Final Answer: no</think><end>**Final Answer:** yes</end>", "yes"),
        ("```\n<end> Final Answer: yes </end>\n```", "yes"),
        ("Thought: Final Answer is near\nSearch: No Retrieval", None),
        ("<thought> a <sub-question> q </sub-question>\nFinal Answer: no </thought>", None),
        ("<search> No Retrieval </search>\nFinal Answer: no", None),
        ("<thought> Final Answer: no", None),
        ("<thought> a </thought><answer>yes</answer>", "yes"),
        ("The final answer is: yes", "yes"),
        ("### Thought\nIt is known.\n### Final Answer\nyes", "yes"),
        ('{"thought": "Final Answer: no", "final answer": "yes"}', "yes"),
    ],
)
def test_final_answers_as_models_write_them(reply: str, final: str | None) -> None:
    assert read_step(reply)[3] == final


def test_an_empty_final_answer_is_asked_again() -> None:
    answer, _ = run("<end> Final Answer: </end>", FINAL)
    assert (answer.answer, answer.malformed) == ("Niamey", 1)


def test_a_step_in_json() -> None:
    step = {"Thought": "t", "Sub-Question": "Which?", "Search": "Text Retrieval: Niger"}
    assert read_step(json.dumps(step)) == ("t", "Which?", "Text Retrieval: Niger", None)
    nested = {**step, "Search": {"action": "Text Retrieval", "query": "Niger"}}
    assert read_step(json.dumps(nested)) == ("t", "Which?", "Text Retrieval: Niger", None)
    assert read_step(f"```json\n{json.dumps(step, indent=1)}\n```") == ("t", "Which?", "Text Retrieval: Niger", None)


def test_without_a_query_the_sub_question_is_searched_for() -> None:
    answer, _ = run("<sub-question>Which?</sub-question><search>Text Retrieval</search>", "Niger", FINAL)
    assert answer.rounds[0].calls[0].call.arguments == {"queries": ["Which?"]} and answer.malformed == 0


def test_a_solver_that_writes_the_next_step() -> None:
    """One model plays both roles; a script of the published code has no solver for images."""
    answer, planner = run(step("Image Retrieval with Input Image"), step("Text Retrieval: Niger"), "Niamey", FINAL)
    assert [[record.call.tool for record in one.calls] for one in answer.rounds] == [
        ["image_search"], ["text_search"], [],
    ]  # fmt: skip
    assert answer.answer == "Niamey" and answer.malformed == 0 and len(planner.asked) == 4
    told = [text_of(message) for message in planner.asked[-1]]
    assert any(text.startswith("Results for the sub-question:\nimage_search:") for text in told)
    assert told[-1] == "Answer to the sub-question: Niamey"


def test_a_final_answer_of_the_solver_is_that_of_the_sub_question() -> None:
    answer, planner = run(step("Text Retrieval: Niger"), "<end> Final Answer: a country </end>", FINAL)
    assert answer.answer == "Niamey"
    assert last_text(planner.asked[-1]) == "Answer to the sub-question: a country"


def test_calls_in_the_form_of_tools() -> None:
    planner = ScriptedPlanner([calling("text_search", '{"queries": ["a"]}'), "solved", FINAL])
    answer = asyncio.run(Engine(planner, [fake_tool("text_search")]).run(OmniSearch(), "What?", image()))
    assert (answer.answer, answer.malformed, len(answer.sources)) == ("Niamey", 0, 1)


def test_a_last_answer_that_never_leaves_its_thought() -> None:
    answer, _ = run(*[step("No Retrieval"), "a"] * 5, "<thought> a", "<thought> I know.\nFinal Answer: Niamey")
    assert (answer.answer, answer.stopped) == ("Niamey", "rounds")
