"""Runs that are recorded and replayed."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path

import pytest

from chat_models.replies import ChatReply
from search_agents.corpus import Corpus
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool
from search_agents.trail import AgentAnswer
from tests.fakes.planner import SEARCH, ScriptedPlanner, Words, fake_tool, image, run, searches


def test_a_replayed_run_is_bit_identical(tmp_path: Path) -> None:
    script: list[str | ChatReply] = [searches("a", "b"), searches("a"), "<answer>x [2]</answer>"]
    recorded, _ = run(script, corpus=Corpus(tmp_path / "corpus", record=True))
    recorded.write(tmp_path / "recorded.json")

    def never(arguments: Words) -> Observation:
        raise AssertionError("the world was asked")

    replayed, planner = run([], [fake_tool("text_search", never)], corpus=Corpus(tmp_path / "corpus"))
    replayed.write(tmp_path / "replayed.json")
    assert planner.asked == []
    assert (tmp_path / "replayed.json").read_bytes() == (tmp_path / "recorded.json").read_bytes()
    assert recorded.answer == "x"


def test_the_time_of_a_tool_that_is_not_recorded_is_not_in_a_trail_with_a_corpus(tmp_path: Path) -> None:
    """Such as `zoom_in`: it runs again in a replay and takes a different time."""

    async def slow(arguments: Words, state: AgentRun) -> Observation:
        await asyncio.sleep(0.002)
        return Observation(text="closer")

    tools = [Tool("text_search", "", Words, slow)]
    script: list[str | ChatReply] = [SEARCH, "<answer>x</answer>"]
    recorded, _ = run(script, tools, corpus=Corpus(tmp_path, record=True))
    replayed, _ = run([], tools, corpus=Corpus(tmp_path))
    assert recorded.as_dict() == replayed.as_dict() and recorded.rounds[0].calls[0].ms == 0
    live, _ = run(script, tools)
    assert live.rounds[0].calls[0].ms >= 1


async def test_a_recorded_trail_does_not_depend_on_other_runs(tmp_path: Path) -> None:
    """A killed evaluation that resumes has an empty cache."""
    planner = ScriptedPlanner(lambda text: "<answer>x [1]</answer>" if "Result 1" in text else SEARCH)
    engine = Engine(planner, [fake_tool("text_search")], corpus=Corpus(tmp_path, record=True))

    first, second = [(await engine.run(MMSearchPlus(), "What is it?", image())).as_dict() for _ in range(2)]
    assert first == second and len(planner.asked) == 2


def test_a_frozen_corpus_asks_nobody(tmp_path: Path) -> None:
    run([SEARCH, "<answer>x</answer>"], corpus=Corpus(tmp_path, record=True))
    (searched,) = (tmp_path / "text_search").iterdir()
    searched.unlink()
    answer, planner = run([], corpus=Corpus(tmp_path))
    assert planner.asked == []
    assert answer.rounds[0].calls[0].observation.error.startswith("this text_search is not in the frozen corpus")
    assert answer.abstained and "this request to the model is not in the frozen corpus" in str(answer.failure)


def test_who_records_the_same_at_once_gets_the_same(tmp_path: Path) -> None:
    """If two runs share no cache, the first one to finish decides what both saw and what a replay sees."""
    numbers = iter(range(9))

    async def search(arguments: Words, state: AgentRun) -> Observation:
        number = next(numbers)
        await asyncio.sleep(0.02 * (1 - number))
        return Observation((Source(f"found by {number}", "text", "a"),))

    tool = Tool("text_search", "", Words, search, lambda arguments, state: "")

    async def both() -> list[AgentAnswer]:
        corpus = Corpus(tmp_path, record=True)
        engines = [Engine(ScriptedPlanner([SEARCH, "<answer>x</answer>"]), [tool], corpus=corpus) for _ in range(2)]
        return await asyncio.gather(*(engine.run(MMSearchPlus(), "What?", image()) for engine in engines))

    first, second = asyncio.run(both())
    assert first.sources == second.sources and len(first.sources) == 1
    assert next(numbers) == 1  # searched once


async def test_equal_requests_to_the_model_at_once_are_sent_once_if_they_are_recorded(tmp_path: Path) -> None:
    """Two questions about one image may share their first request."""
    planner = ScriptedPlanner(["<answer>x</answer>"])
    engine = Engine(planner, [], corpus=Corpus(tmp_path, record=True))

    first, second = await asyncio.gather(*(engine.run(MMSearchPlus(), "What?", image()) for _ in range(2)))
    assert first.as_dict() == second.as_dict() and len(planner.asked) == 1


def test_a_damaged_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; record one first"):
        Corpus(tmp_path / "none")
    run([SEARCH, "<answer>x</answer>"], corpus=Corpus(tmp_path, record=True))
    for path in (tmp_path / "model").iterdir():
        path.write_text('{"result": {}')
    with pytest.raises(ValueError, match=r"\.json: not a recorded result"):
        run([], corpus=Corpus(tmp_path))


def test_models_are_told_the_day_of_a_corpus(tmp_path: Path) -> None:
    new = Corpus(tmp_path / "new", record=True)
    assert new.today == date.today() and not (tmp_path / "new").exists()
    new.write("model", "key", {"a": 1}, 1.0)
    (tmp_path / "new" / "date.txt").write_text("2024-11-22\n")
    assert Corpus(tmp_path / "new").today == Corpus(tmp_path / "new", record=True).today == date(2024, 11, 22)
    (tmp_path / "old" / "model").mkdir(parents=True)  # of an older version: its keys have no date
    assert Corpus(tmp_path / "old").today is Corpus(tmp_path / "old", record=True).today is None
    (tmp_path / "old" / "date.txt").write_text("soon")
    with pytest.raises(ValueError, match=r"date\.txt must be a date such as"):
        Corpus(tmp_path / "old")
