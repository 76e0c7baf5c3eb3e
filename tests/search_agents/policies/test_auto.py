"""The inspector's verdict in the forms that models write; the planner is tested with MMSearch-Plus."""

from __future__ import annotations

import asyncio

import pytest

from chat_models.replies import ChatReply
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.policies.auto import Auto
from search_agents.records import Observation, Source
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, calling, fake_tool, image

SEEN = Observation(
    (Source("Niger", "Its capital is Niamey.", "https://kb/Niger"),), "Proposed answer: Agadez", answer="Agadez"
)


def run(verdict: str | ChatReply) -> AgentAnswer:
    planner = ScriptedPlanner([verdict, calling("text_search"), "<answer>planned [1]</answer>"])
    tools = [fake_tool("ask_index", lambda arguments: SEEN), fake_tool("text_search")]
    return asyncio.run(Engine(planner, tools).run(Auto(), "What is its capital?", image()))


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        ('{"sufficient": true, "answer": "Niamey", "sources": [1], "missing": ""}', "Niamey"),
        ("{'sufficient': True, 'answer': 'Niamey', 'sources': ['1']}", "Niamey"),
        ('{"sufficient": "yes", "answer": "Niamey [1]"}', "Niamey"),
        ('{"verdict": "sufficient", "answer": "Niamey"}', "Niamey"),
        ('{"sufficient": true, "answer": 376}', "376"),
        ('{"sufficient": true}', "Agadez"),
        ("Sufficient: yes\nAnswer: Niamey\n", "Niamey"),
        ("Yes, the evidence suffices. Answer: Niamey [1]", "Niamey"),
        ("<think>no</think><answer>Niamey [1]</answer>", "Niamey"),
        ('<think>{"sufficient": false}</think>{"sufficient": true, "answer": "Niamey"}', "Niamey"),
        ("Yes, the evidence is sufficient. The answer is Niamey [1].", "Niamey"),
    ],
)
def test_evidence_that_suffices(verdict: str, answer: str) -> None:
    found = run(verdict)
    assert (found.answer, found.malformed, len(found.rounds)) == (answer, 0, 2)
    assert found.claims[0].sources == (1,)


@pytest.mark.parametrize(
    ("verdict", "malformed"),
    [
        ('{"sufficient": false, "missing": "the capital"}', 0),
        ('{"verdict": "insufficient", "answer": "Niamey"}', 0),
        ("No. The evidence does not name the capital.", 0),
        ("Sufficient: No\nMissing: the capital", 0),
        ("The evidence is insufficient: the capital is missing.", 0),
        ("<answer>unknown</answer>", 0),
        (calling("text_search"), 0),
        ('{"a": 1}', 1),
        ("Perhaps.", 1),
        ("", 1),
        ('{"sufficient": true, "answer": "...", "sources": [1], "missing": "..."}', 1),  # the form, repeated
        (ChatReply('{"sufficient": true, "answer": "Niamey on the Niger, on the Niger, on', ending="cut"), 1),
        ('{"sufficient": true, "answer": "unknown"}', 0),
    ],
)
def test_evidence_that_does_not(verdict: str | ChatReply, malformed: int) -> None:
    found = run(verdict)
    assert (found.answer, found.malformed, len(found.rounds)) == ("planned", malformed, 3)


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [("Perhaps.", "Agadez"), ('{"sufficient": true, "answer": "..."}', "Agadez"), ('{"sufficient": false}', None)],
)
def test_the_index_s_answer_is_kept_unless_the_inspector_distrusts_it(verdict: str, answer: str | None) -> None:
    planner = ScriptedPlanner([verdict, "I do not know what to say."])
    tools = [fake_tool("ask_index", lambda arguments: SEEN), fake_tool("text_search")]
    budget = Budget(rounds=3, malformed=20)
    found = asyncio.run(Engine(planner, tools).run(Auto(), "What is its capital?", image(), budget=budget))
    assert found.answer == answer and found.stopped == "rounds"
