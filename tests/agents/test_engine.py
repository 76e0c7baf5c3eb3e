"""The engine with scripted models and fake tools: budget, concurrency, cache, numbering, provenance."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.budget import Budget
from agents.cache import ResultCache
from agents.corpus import Corpus
from agents.engine import Engine
from agents.policies import POLICIES
from agents.policies.auto import Auto
from agents.policies.mmsearch_plus import MMSearchPlus
from agents.state import AgentRun, Observation, Source
from agents.tool import Tool
from agents.trail import AgentAnswer
from llm.chat import ChatError
from llm.replies import ChatReply, ToolCall
from tests.fakes.planner import Script, ScriptedPlanner, Words, calling, fake_tool, image, last_text, text_of

SEARCH = calling("text_search", '{"queries": ["Niger"]}')


def run(
    script: Script, tools: Sequence[Tool] | None = None, budget: Budget | None = None, **settings: Any
) -> tuple[AgentAnswer, ScriptedPlanner]:
    planner = ScriptedPlanner(script)
    engine = Engine(planner, [fake_tool("text_search")] if tools is None else tools, **settings)
    return asyncio.run(engine.run(MMSearchPlus(), "What is it?", image(), budget=budget)), planner


def searches(*queries: str) -> ChatReply:
    return ChatReply("", tuple(ToolCall("text_search", json.dumps({"queries": [query]}), query) for query in queries))


def test_an_answer_with_its_source() -> None:
    answer, planner = run([SEARCH, "So it is clear. <answer>Niamey [1]</answer>"])
    assert answer.answer == "Niamey"
    assert [(claim.text, claim.sources) for claim in answer.claims] == [("Niamey", (1,))]
    assert answer.sources == (Source("Niger", "all about Niger", "https://kb/Niger"),)
    assert answer.stopped == "" and answer.malformed == 0
    assert [one.thought for one in answer.rounds] == ["", "So it is clear."]
    assert "[1] Niger (https://kb/Niger)\nall about Niger" in last_text(planner.asked[1])


def test_a_number_that_no_source_has_is_not_cited() -> None:
    answer, _ = run([SEARCH, "<answer>Niamey [1][7]. Certainly [8].</answer>"])
    assert [(claim.text, claim.sources) for claim in answer.claims] == [("Niamey.", (1,)), ("Certainly.", ())]
    assert answer.invented == (7, 8)


def test_numbers_run_on_over_rounds_and_a_source_keeps_its_number() -> None:
    answer, _ = run([searches("a", "b"), searches("c", "a"), "<answer>x [3]</answer>"])
    assert [[record.numbers for record in one.calls] for one in answer.rounds] == [[(1,), (2,)], [(3,), (1,)], []]
    assert [source.title for source in answer.sources] == ["a", "b", "c"]


def test_searches_of_a_round_run_at_once_and_are_numbered_by_call() -> None:
    """Every search waits for all the others, and the first one called ends last."""
    barrier = asyncio.Barrier(3)
    ended: list[str] = []

    async def search(arguments: Words, state: AgentRun) -> Observation:
        [query] = arguments.queries
        await barrier.wait()
        for _ in range(5 * (3 - int(query))):
            await asyncio.sleep(0)
        ended.append(query)
        return Observation((Source(query, "text", query),))

    tool = Tool("text_search", "", Words, search, lambda arguments, state: "")
    answer, _ = run([searches("0", "1", "2"), "<answer>x</answer>"], [tool])
    assert ended == ["2", "1", "0"]
    assert [source.title for source in answer.sources] == ["0", "1", "2"]


def test_identical_searches_are_run_once() -> None:
    asked: list[str] = []

    def search(arguments: Words) -> Observation:
        asked.extend(arguments.queries)
        return Observation((Source("a", "text", "a"),))

    answer, _ = run(
        [searches("a", "a"), searches("a"), "<answer>x</answer>"], [fake_tool("text_search", search, cost=0.5)]
    )
    assert asked == ["a"]
    assert [[record.cached for record in one.calls] for one in answer.rounds] == [[False, True], [True], []]
    assert answer.spent["money"] == 0.5 and answer.spent["calls"] == {"text_search": 3}


def test_runs_share_a_cache_that_expires() -> None:
    now, asked = [0.0], []
    cache = ResultCache[tuple[Observation, float]](seconds=10, clock=lambda: now[0])

    def search(arguments: Words) -> Observation:
        asked.append(now[0])
        return Observation()

    for now[0] in (0.0, 9.0, 10.0):
        run([SEARCH, "<answer>x</answer>"], [fake_tool("text_search", search)], cache=cache)
    assert asked == [0.0, 10.0]


def test_runs_at_once_join_identical_searches() -> None:
    """Both runs search for the same while the first search is under way: one is asked, one pays."""
    started, both = 0, asyncio.Event()

    async def search(arguments: Words, state: AgentRun) -> Observation:
        nonlocal started
        started += 1
        await both.wait()
        return Observation((Source("a", "text", "a"),))

    tool = Tool("text_search", "", Words, search, lambda arguments, state: "", cost=0.5)
    asked = 0

    def reply(text: str) -> ChatReply | str:
        nonlocal asked
        asked += 1
        if asked == 2:
            asyncio.get_running_loop().call_later(0.01, both.set)  # after the second run has called the tool
        return SEARCH if asked <= 2 else "<answer>x</answer>"

    async def run_both() -> list[AgentAnswer]:
        engine = Engine(ScriptedPlanner(reply), [tool])
        return await asyncio.gather(*(engine.run(MMSearchPlus(), "What?", image()) for _ in range(2)))

    answers = asyncio.run(run_both())
    assert started == 1
    assert sorted(answer.spent["money"] for answer in answers) == [0, 0.5]
    assert [answer.sources[0].title for answer in answers] == ["a", "a"]


def test_a_price_is_per_query() -> None:
    tool = replace(fake_tool("text_search", cost=0.25), units=lambda arguments: len(arguments.queries))
    three = calling("text_search", '{"queries": ["a", "b", "c"]}')
    answer, planner = run([three, SEARCH, "<answer>x</answer>"], [tool], Budget(money=1))
    assert [one.calls[0].cost for one in answer.rounds[:2]] == [0.75, 0]
    assert "text_search costs more than the budget has left" in last_text(planner.asked[2])
    assert answer.spent["money"] == 0.75


def test_a_failed_search_is_tried_again_at_the_next_call() -> None:
    seen: list[Observation | Exception] = [OSError("busy"), Observation((Source("a", "text", "a"),))]
    answers = iter(seen)
    answer, _ = run([SEARCH, SEARCH, "<answer>x</answer>"], [fake_tool("text_search", lambda arguments: next(answers))])
    assert [one.calls[0].observation.error for one in answer.rounds[:2]] == ["busy", ""]


def test_a_failed_search_is_told_and_kept_from_nobody() -> None:
    seen: list[Observation | Exception] = [OSError("no connection"), Observation((Source("a", "text", "a"),))]
    answers = iter(seen)
    answer, planner = run(
        [SEARCH, calling("text_search", '{"queries": ["b"]}'), "<answer>x [1]</answer>"],
        [fake_tool("text_search", lambda arguments: next(answers))],
    )
    assert "text_search: no connection" in last_text(planner.asked[1])
    assert answer.answer == "x" and answer.malformed == 0


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (calling("text_serach"), "there is no tool 'text_serach'; the tools are text_search"),
        (calling("text_search", '{"queries": ["a"'), "the arguments of text_search are not a JSON object"),
        (calling("text_search", '{"queries": 3}'), "wrong arguments of text_search: queries: Input should be a valid"),
        (calling("text_search", "[" * 100_000), "the arguments of text_search are not a JSON object"),
        ('<tool_call>{"name": "text_search", "argum', "a tool call must be <tool_call>"),
        ("I would search for it.", "neither a tool call nor an answer"),
        ("<think>maybe <answer>no</answer>", "neither a tool call nor an answer"),
    ],
)  # fmt: skip
def test_a_malformed_reply_is_counted_and_told(reply: str | ChatReply, told: str) -> None:
    answer, planner = run([reply, "<answer>x</answer>"])
    assert answer.malformed == 1
    assert told in last_text(planner.asked[1])
    assert answer.answer == "x"


def test_too_many_malformed_replies_end_the_rounds_with_an_answer() -> None:
    answer, planner = run(["hm"] * 3 + ["It is Niamey"], budget=Budget(malformed=3))
    assert (answer.answer, answer.stopped, answer.malformed) == ("It is Niamey", "malformed replies", 3)
    assert planner.tools == [["text_search"]] * 3 + [[]]


def test_a_model_that_loops_is_asked_for_its_answer() -> None:
    answer, _planner = run(lambda text: "<answer>x [1]</answer>" if "No more tools" in text else SEARCH)
    assert (answer.answer, answer.stopped, len(answer.rounds)) == ("x", "rounds", 21)
    assert len(answer.sources) == 1


def test_rounds_are_a_hard_stop() -> None:
    answer, planner = run([SEARCH], budget=Budget(rounds=3))
    assert len(planner.asked) == 4  # and the last request, to which the answer is a call again
    assert answer.abstained and answer.stopped == "rounds"


def test_roles_alternate() -> None:
    """Some chat templates refuse two messages of the user in a row."""
    _, planner = run([SEARCH, "hm", SEARCH], budget=Budget(rounds=3))
    for asked in planner.asked:
        roles = [message["role"] for message in asked]
        assert roles[:2] == ["system", "user"]
        assert all(one != after or one == "tool" for one, after in itertools.pairwise(roles))


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
    """Of a server that counts three times the estimate of some 2,000, two requests fit and a third would not."""
    reply = ChatReply("", SEARCH.calls, prompt_tokens=6_000, completion_tokens=10)
    answer, planner = run([reply], budget=Budget(tokens=17_000))
    assert answer.stopped == "tokens" and len(planner.asked) == 2
    assert answer.spent["tokens"] == 2 * 6_010  # without the lesson three requests, of which the last exceeds the limit


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
    answer, _planner = run([SEARCH, "<answer>x</answer>"], [tool], Budget(seconds=0.2))
    assert (answer.answer, answer.stopped) == ("x", "seconds")
    assert answer.rounds[0].calls[0].observation.error == "stopped before it ended"


def test_a_model_that_fails_is_named_as_the_reason() -> None:
    answer, _ = run([SEARCH, ChatError("out of memory", "http://model", 500)])
    assert answer.abstained
    assert (answer.stopped, str(answer.failure)) == ("the model failed", "http://model: out of memory")
    assert [source.title for source in answer.sources] == ["Niger"]


def test_the_context_never_outgrows_the_model() -> None:
    def search(arguments: Words) -> Observation:
        return Observation(tuple(Source(f"{arguments.queries[0]} {n}", "word " * 2_000, str(n)) for n in range(5)))

    replies: list[str | ChatReply] = [searches(str(number)) for number in range(6)]
    answer, planner = run([*replies, "<answer>x</answer>"], [fake_tool("text_search", search)], context_tokens=8_000)
    assert answer.answer == "x"
    for asked in planner.asked:
        assert sum(len(text_of(message)) for message in asked) < 4 * 8_000
        assert "Question: What is it?" in text_of(asked[1])


def test_hundreds_of_calls_at_once_are_cut() -> None:
    answer, _ = run([searches(*map(str, range(300))), "<answer>x</answer>"])
    assert len(answer.sources) == 16
    assert answer.rounds[0].problem == "300 calls at once; only the first 16 were run"


def test_a_budget_is_checked() -> None:
    with pytest.raises(ValueError, match="budget: tokens must be at least 0, got -1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="budget: money must be at least 0, got nan"):
        Budget(money=math.nan)
    with pytest.raises(ValueError, match="every tool needs a name of its own, got a, a"):
        Engine(ScriptedPlanner([""]), [fake_tool("a"), fake_tool("a")])


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
    """Such as `zoom_in`: it runs again in a replay, and takes another time."""

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


def test_a_recorded_trail_does_not_depend_on_other_runs(tmp_path: Path) -> None:
    """A killed evaluation that resumes has an empty cache."""
    planner = ScriptedPlanner(lambda text: "<answer>x [1]</answer>" if "Result 1" in text else SEARCH)
    engine = Engine(planner, [fake_tool("text_search")], corpus=Corpus(tmp_path, record=True))

    async def twice() -> list[dict[str, Any]]:
        return [(await engine.run(MMSearchPlus(), "What is it?", image())).as_dict() for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first == second and len(planner.asked) == 2


def test_calls_by_the_api_are_answered_in_its_way() -> None:
    reply = ChatReply("I search.", (ToolCall("text_search", '{"queries": ["a"]}'), ToolCall("text_search", '{"quer')))
    answer, planner = run([reply, "<answer>x [1]</answer>"])
    assistant, first, second, problem = [*planner.asked[1][2:], None]
    assert assistant["content"] == "I search."
    names = [(call["id"], call["function"]["arguments"]) for call in assistant["tool_calls"]]
    assert names == [("call_1_0", '{"queries": ["a"]}'), ("call_1_1", "{}")]  # servers refuse what is no JSON
    assert (first["role"], first["tool_call_id"]) == ("tool", "call_1_0")
    assert first["content"] == (
        "<text_search_result>\nResult 1\nweb_info:\n[1] a (https://kb/a)\nall about a\n</text_search_result>"
    )
    assert second["content"].startswith("text_search: the arguments of text_search are not a JSON object")
    assert problem is None and answer.malformed == 1


def test_calls_in_the_text_are_answered_by_the_user() -> None:
    _, planner = run(
        ['<tool_call>{"name": "text_search", "arguments": {"queries": ["a"]}}</tool_call>', "<answer>x</answer>"]
    )
    assert [message["role"] for message in planner.asked[1]] == ["system", "user", "assistant", "user"]
    assert "[1] a (https://kb/a)" in last_text(planner.asked[1])


def test_a_question_without_an_image() -> None:
    planner = ScriptedPlanner([SEARCH, "<answer>x [1]</answer>"])
    engine = Engine(planner, [fake_tool("text_search"), fake_tool("image_search"), fake_tool("ask_index")])
    answer = asyncio.run(engine.run(Auto(), "What is it?", None))
    assert answer.answer == "x" and planner.tools[0] == ["text_search"]
    assert planner.asked[0][1]["content"] == "Question: What is it?"


def test_a_question_with_several_images() -> None:
    planner = ScriptedPlanner(["<answer>x</answer>"])
    asyncio.run(Engine(planner, []).run(MMSearchPlus(), "Which?", image(), more_images=[image("blue").resize((9, 8))]))
    text = last_text(planner.asked[0])
    assert 'The image 2 is named "image_2" and has 9 x 8 pixels.' in text
    assert [part["type"] for part in planner.asked[0][1]["content"]] == ["image_url", "image_url", "text"]


def page(text: str, chunks: int) -> Tool:
    """Returns a tool that opens a page of the web."""
    found = Observation(tuple(Source("page", f"{n} {text}", "https://web", span=(n, n + 1)) for n in range(chunks)))
    return fake_tool("open_page", lambda arguments: found)


def test_long_pages_of_the_web_are_summarized_for_the_question() -> None:
    script: Script = [calling("open_page"), "Niamey is the capital [2].", "<answer>Niamey [2]</answer>"]
    answer, planner = run(script, [page("word " * 200, 4)])
    assert [request.purpose for one in answer.rounds for request in one.requests] == ["decide", "web_info", "decide"]
    assert last_text(planner.asked[1]).startswith("Question: What is it?") and "[4] page" in last_text(planner.asked[1])
    seen = last_text(planner.asked[2])
    assert "web_info: Niamey is the capital [2]." in seen
    assert "0 word" in seen and "1 word" not in seen and "[4] page (https://web)" in seen  # the best part in full
    assert answer.claims[0].sources == (2,)


def test_pages_that_are_short_are_not_summarized() -> None:
    answer, planner = run([calling("open_page"), "<answer>x</answer>"], [page("word", 4)])
    assert len(planner.asked) == 2 and answer.answer == "x"


@pytest.mark.parametrize("mode", ["mmsearch-plus", "omnisearch", "mmsearch", "vsa", "auto"])
@pytest.mark.parametrize("letter", ["word ", "\u56fd"])
def test_a_huge_page_never_outgrows_the_model(mode: str, letter: str) -> None:
    """480,000 tokens as one excerpt, in English and in Chinese, where every character is a token."""
    huge = Observation((Source("page", letter * (1_920_000 // len(letter)), "https://web"),), answer="x")
    names = ("open_page", "text_search", "image_search", "ask_index", "find_images")
    replies = {
        "mmsearch-plus": [calling("open_page"), "<answer>x [1]</answer>"],
        "omnisearch": ["<thought>t</thought><search> Text Retrieval: a </search>", "s", "<end> Final Answer: x </end>"],
        "mmsearch": ["query", "<Website 1>", "x"],
        "vsa": ["a flag", '{"sufficient": false, "questions": ["a"]}', "r", "k", '{"sufficient": true}', "x"],
        "auto": ['{"sufficient": false}', calling("text_search"), "<answer>x</answer>"],
    }
    planner = ScriptedPlanner(replies[mode])  # type: ignore[arg-type]
    engine = Engine(planner, [fake_tool(name, lambda arguments: huge) for name in names], context_tokens=4_096)
    answer = asyncio.run(engine.run(POLICIES[mode](), "What is it?", image()))
    assert answer.answer == "x"
    for asked in planner.asked:
        images = sum(
            part["type"] == "image_url"
            for message in asked
            if not isinstance(message["content"], str)
            for part in message["content"]
        )
        characters = sum(len(text_of(message)) for message in asked)
        assert 1_000 * images + characters / (1 if letter == "\u56fd" else 4) <= 4_096 + 700  # prompts are in English
        assert "question: " in "".join(map(text_of, asked)).lower() or text_of(asked[0]).startswith("Describe")


def test_a_frozen_corpus_asks_nobody(tmp_path: Path) -> None:
    run([SEARCH, "<answer>x</answer>"], corpus=Corpus(tmp_path, record=True))
    (searched,) = (tmp_path / "text_search").iterdir()
    searched.unlink()
    answer, planner = run([], corpus=Corpus(tmp_path))
    assert planner.asked == []
    assert answer.rounds[0].calls[0].observation.error.startswith("this text_search is not in the frozen corpus")
    assert answer.abstained and "this request to the model is not in the frozen corpus" in str(answer.failure)


def test_who_records_the_same_at_once_gets_the_same(tmp_path: Path) -> None:
    """Of two runs without a common cache, the first one to end decides what both saw, and what a replay sees."""
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


def test_equal_requests_to_the_model_at_once_are_sent_once_if_they_are_recorded(tmp_path: Path) -> None:
    """Two questions about one image may share their first request."""
    planner = ScriptedPlanner(["<answer>x</answer>"])
    engine = Engine(planner, [], corpus=Corpus(tmp_path, record=True))

    async def both() -> list[AgentAnswer]:
        return await asyncio.gather(*(engine.run(MMSearchPlus(), "What?", image()) for _ in range(2)))

    first, second = asyncio.run(both())
    assert first.as_dict() == second.as_dict() and len(planner.asked) == 1


def test_a_damaged_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; record one first"):
        Corpus(tmp_path / "none")
    run([SEARCH, "<answer>x</answer>"], corpus=Corpus(tmp_path, record=True))
    for path in (tmp_path / "model").iterdir():
        path.write_text('{"result": {}')
    with pytest.raises(ValueError, match=r"\.json: not a recorded result"):
        run([], corpus=Corpus(tmp_path))
