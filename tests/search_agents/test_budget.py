"""The budget of a run: a hard stop for rounds, tokens, money, calls and time."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from chat_models.replies import ChatReply
from search_agents.budget import Budget
from search_agents.engine import Engine
from search_agents.records import Observation
from search_agents.state import AgentRun, Tool
from tests.fakes.planner import SEARCH, ScriptedPlanner, Words, calling, fake_tool, last_text, run, searches


def test_rounds_are_a_hard_stop() -> None:
    answer, planner = run([SEARCH], budget=Budget(rounds=3))
    assert len(planner.asked) == 4  # including the last request, which is answered with yet another call
    assert answer.abstained and answer.stopped == "rounds"


def test_no_rounds_at_all() -> None:
    answer, planner = run(["<answer>x</answer>"], budget=Budget(rounds=0))
    assert answer.answer == "x" and len(planner.asked) == 1


def test_tokens_are_a_hard_stop_and_some_are_kept_for_the_answer() -> None:
    """1,000 for each of two images and 1,024 for a reply: the third request would exceed 80 % of 9,000."""
    reply = ChatReply("", SEARCH.calls, prompt_tokens=2_000, completion_tokens=500)
    answer, _planner = run(
        lambda text: "<answer>x</answer>" if "No more tools" in text else reply, budget=Budget(tokens=9_000)
    )
    assert (answer.answer, answer.stopped) == ("x", "tokens")
    assert answer.spent["tokens"] <= 9_000


def test_the_estimate_learns_from_what_the_server_counts() -> None:
    """With a server that counts three times the estimate of about 2,000, two requests fit and a third would not."""
    reply = ChatReply("", SEARCH.calls, prompt_tokens=6_000, completion_tokens=10)
    answer, planner = run([reply], budget=Budget(tokens=17_000))
    assert answer.stopped == "tokens" and len(planner.asked) == 2
    assert answer.spent["tokens"] == 2 * 6_010  # without the correction, a third request would exceed the limit


def test_nothing_is_asked_that_the_budget_does_not_allow() -> None:
    answer, planner = run(["<answer>x</answer>"], budget=Budget(tokens=100))
    assert planner.asked == []
    assert answer.abstained and answer.stopped == "tokens"


def test_money_counts_for_model_and_tools() -> None:
    reply = ChatReply("", SEARCH.calls, prompt_tokens=1_000_000, completion_tokens=100_000)
    budget = Budget(tokens=10**9, money=10, prompt_price=2, completion_price=10)
    answer, _planner = run([reply], [fake_tool("text_search", cost=1)], budget)
    assert answer.stopped == "money"
    assert answer.spent["money"] == 3 * 3 + 1  # the third request began below 80 % of 10


def test_a_price_is_per_query() -> None:
    tool = replace(fake_tool("text_search", cost=0.25), units=lambda arguments: len(arguments.queries))
    three = calling("text_search", '{"queries": ["a", "b", "c"]}')
    answer, planner = run([three, SEARCH, "<answer>x</answer>"], [tool], Budget(money=1))
    assert [one.calls[0].cost for one in answer.rounds[:2]] == [0.75, 0]
    assert "text_search costs more than the budget has left" in last_text(planner.asked[2])
    assert answer.spent["money"] == 0.75


def test_calls_per_tool_are_limited() -> None:
    answer, planner = run([searches("a", "b", "c"), "<answer>x</answer>"], budget=Budget(calls={"text_search": 2}))
    assert [bool(record.observation.error) for record in answer.rounds[0].calls] == [False, False, True]
    assert "text_search has been called 2 times, which is all" in last_text(planner.asked[1])
    assert answer.malformed == 0


def test_time_is_a_hard_stop_for_a_tool_that_hangs() -> None:
    async def hang(arguments: Words, state: AgentRun) -> Observation:
        await asyncio.Event().wait()
        raise AssertionError

    tool = Tool("text_search", "", Words, hang, lambda arguments, state: "")
    answer, _planner = run([SEARCH, "<answer>x</answer>"], [tool], Budget(seconds=2.0))
    assert (answer.answer, answer.stopped) == ("x", "seconds")
    assert answer.rounds[0].calls[0].observation.error == "stopped before it ended"


def test_a_budget_is_checked() -> None:
    with pytest.raises(ValueError, match="budget: tokens must be at least 0, got -1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="budget: money must be at least 0, got nan"):
        Budget(money=math.nan)
    with pytest.raises(ValueError, match="every tool needs a name of its own, got a, a"):
        Engine(ScriptedPlanner([""]), [fake_tool("a"), fake_tool("a")])
