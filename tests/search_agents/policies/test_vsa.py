"""Vision Search Assistant with scripted replies, and the bugs of the published code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image

from chat_models.messages import Message
from search_agents.engine import Engine
from search_agents.policies.vsa import VisionSearchAssistant
from search_agents.regions import Box
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, fake_tool, image, last_text, text_of

BOXES = (Box(0, 0, 100, 100), Box(100, 0, 200, 100))


class Assistant(ScriptedPlanner):
    """Replies according to the purpose stated in the system message."""

    def __init__(self, *updates: dict[str, Any] | str) -> None:
        super().__init__([""])
        self._updates = list(updates)

    async def reply(self, messages: Sequence[Message], *rest: Any) -> Any:
        about = text_of(messages[0])
        if about.startswith("Describe"):
            self._script = [f"caption of {messages[1]['content'][0]['image_url']['url'][-9:]}"]
        elif about.startswith("You see a part"):
            self._script = [last_text(messages).split("This region: ")[1].split("\n")[0] + ", corrected"]
        elif about.startswith("You plan"):
            update = self._updates.pop(0) if len(self._updates) > 1 else self._updates[0]
            self._script = [update if isinstance(update, str) else json.dumps(update)]
        elif about.startswith("Answer the sub"):
            self._script = ["response to " + last_text(messages).split("Sub-question: ")[1].split("\n")[0] + " [1]"]
        elif about.startswith("Sum up"):
            self._script = [f"{last_text(messages).count('response to')} responses"]
        else:
            self._script = ["Niamey [1]"]
        return await super().reply(messages, *rest)


def run(
    *updates: dict[str, Any] | str, boxes: Sequence[Box] = BOXES, shown: Image.Image | None = None
) -> tuple[AgentAnswer, Assistant]:
    planner = Assistant(*updates)
    engine = Engine(planner, [fake_tool("text_search")])
    shown = image() if shown is None else shown
    return asyncio.run(engine.run(VisionSearchAssistant(), "Who won?", shown, boxes=boxes)), planner


def ask(*questions: tuple[int, str]) -> dict[str, Any]:
    rows = [{"region": region, "question": question} for region, question in questions]
    return {"sufficient": False, "questions": rows}


ENOUGH = {"sufficient": True, "questions": []}


def purposes(answer: AgentAnswer) -> list[list[str]]:
    return [[request.purpose for request in one.requests] for one in answer.rounds]


def test_regions_then_a_graph_then_the_answer() -> None:
    third = {"sufficient": False, "questions": [{"region": 0, "after": 2, "question": "c"}]}
    answer, planner = run(ask((1, "a"), (2, "b")), third, ENOUGH)
    assert purposes(answer) == [
        ["caption", "caption", "correlate", "correlate", "sub-questions"],
        ["respond", "respond", "knowledge", "sub-questions"],
        ["respond", "knowledge", "sub-questions", "answer"],
    ]
    assert [len(one.calls) for one in answer.rounds] == [2, 1, 0]
    final = last_text(planner.asked[-1])
    assert "Sub-question 2 (region 2): b response to b [1]" in final
    assert "Sub-question 3 (region 2, after 2): c response to c [1]" in final
    assert "Knowledge of update 1: 2 responses\nKnowledge of update 2: 3 responses" in final
    [following] = [text for asked in planner.asked if (text := last_text(asked)).startswith("Sub-question: c\n")]
    assert "Known before: response to b [1]" in following  # its parent's, equation 6
    assert ", corrected" in final
    assert answer.answer == "Niamey" and answer.claims[0].sources == (1,)
    urls = [source.url for source in answer.sources]  # kept, each found by the question and with the formulation
    assert [url[:12] for url in urls] == ["https://kb/a"] * 2 + ["https://kb/b"] * 2 + ["https://kb/c"] * 2
    arguments = answer.rounds[0].calls[1].call.arguments
    assert isinstance(arguments, dict) and arguments["queries"][0] == "b"


def test_without_regions_the_whole_image_is_one() -> None:
    answer, _ = run(ask((1, "a")), ENOUGH, boxes=())
    assert purposes(answer)[0] == ["caption", "sub-questions"]


def test_many_and_tiny_regions_of_an_image_with_alpha() -> None:
    boxes = [Box(n, 0, n + 1, 1) for n in range(30)]
    answer, _ = run(ask((99, "a")), ENOUGH, boxes=boxes, shown=Image.new("RGBA", (31, 20)))
    assert purposes(answer)[0].count("caption") == 6
    assert answer.answer == "Niamey"


def test_code_is_not_run_and_counts_as_malformed() -> None:
    answer, _ = run("graph = WebSearchGraph(); import os; os.abort()")
    assert answer.malformed == 4 and answer.stopped == "rounds"
    assert answer.answer == "Niamey"  # from the formulations alone


def test_a_question_is_not_asked_twice() -> None:
    answer, _ = run(ask((1, "a"), (1, "A ")), ask((1, "a")))
    assert [len(one.calls) for one in answer.rounds] == [1, 0]
    assert answer.answer == "Niamey"


@pytest.mark.parametrize(
    "update",
    [
        "1. a?\n2) b?",
        "- a?\n* b?",
        "a?\nb?",
        "Here they are:\nQ1: a?\nQ2: b?",
        "1、a\uff1f\n2、b\uff1f",
        '```json\n{"questions": ["a?", "b?"]}\n```',
    ],
)
@pytest.mark.parametrize("verdict", ["Yes, it is enough.", '{"sufficient": "true"}', "{'sufficient': True}"])
def test_plans_in_words(update: str, verdict: str) -> None:
    answer, _ = run(update, verdict)
    assert [len(one.calls) for one in answer.rounds] == [2, 0] and answer.malformed == 0
    assert answer.answer == "Niamey"


QUESTION = "What is the capital of Niger?"


@pytest.mark.parametrize(
    "update",
    [
        f'["{QUESTION}"]',
        f'```json\n["{QUESTION}"]\n```',
        json.dumps({"sub_questions": [QUESTION]}),
        json.dumps({"Sub-Questions": [{"question": QUESTION}], "Sufficient": "no"}),
        f"<sub-question>{QUESTION}</sub-question>",
        f"**Sub-question 1:** {QUESTION}",
        f'graph.add_root_node(node_content="q", node_name="root")\n'
        f'graph.add_node(node_name="a", node_content="{QUESTION}")',
    ],
)
def test_updates_as_models_write_them(update: str) -> None:
    answer, _ = run(update, {"sufficient": True, "questions": []})
    [record] = answer.rounds[0].calls
    assert isinstance(record.call.arguments, dict) and record.call.arguments["queries"][0] == QUESTION
    assert (answer.answer, answer.malformed) == ("Niamey", 0)


def test_the_end_of_a_program_of_the_published_code() -> None:
    answer, _ = run(ask((1, "What is it?")), "```python\ngraph.add_response_node(node_name='response')\n```")
    assert (answer.answer, answer.malformed, len(answer.rounds)) == ("Niamey", 0, 2)
