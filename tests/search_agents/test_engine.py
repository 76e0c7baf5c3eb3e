"""The engine with scripted models and fake tools: concurrency, cache, numbering, provenance."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from chat_models.errors import ChatError
from chat_models.replies import ChatReply, ToolCall
from search_agents.budget import Budget
from search_agents.cache import ResultCache
from search_agents.engine import Engine
from search_agents.policies import policy_of
from search_agents.policies.auto import Auto
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool
from tests.fakes.planner import (
    SEARCH,
    Script,
    ScriptedPlanner,
    Words,
    calling,
    fake_tool,
    image,
    last_text,
    run,
    searches,
    text_of,
)


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
    """Every search waits for all the others, and the first one called finishes last."""
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


async def test_runs_at_once_join_identical_searches() -> None:
    """Both runs make the same search concurrently: only one is executed and paid for."""
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

    engine = Engine(ScriptedPlanner(reply), [tool])
    answers = await asyncio.gather(*(engine.run(MMSearchPlus(), "What?", image()) for _ in range(2)))
    assert started == 1
    assert sorted(answer.spent["money"] for answer in answers) == [0, 0.5]
    assert [answer.sources[0].title for answer in answers] == ["a", "a"]


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
        (calling("text_serach"), "there is no tool 'text_serach'; did you mean text_search?; the tools are"),
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
    answer, planner = run(lambda text: "<answer>x [1]</answer>" if "No more tools" in text else SEARCH)
    assert (answer.answer, answer.stopped, len(answer.rounds)) == ("x", "", 5)
    assert answer.rounds[-1].problem == "3 calls were repeated"
    assert [record.repeated for one in answer.rounds for record in one.calls] == [False, True, True, True]
    assert len(answer.sources) == 1
    texts = [last_text(asked) for asked in planner.asked[1:4]]
    assert "all about" in texts[0]
    assert texts[1:] == ["text_search: you have this result: [1]"] * 2


def test_roles_alternate() -> None:
    """Some chat templates refuse two consecutive user messages."""
    _, planner = run([SEARCH, "hm", SEARCH], budget=Budget(rounds=3))
    for asked in planner.asked:
        roles = [message["role"] for message in asked]
        assert roles[:2] == ["system", "user"]
        assert all(one != after or one == "tool" for one, after in itertools.pairwise(roles))


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


def test_calls_by_the_api_are_answered_in_its_way() -> None:
    reply = ChatReply("I search.", (ToolCall("text_search", '{"queries": ["a"]}'), ToolCall("text_search", '{"quer')))
    answer, planner = run([reply, "<answer>x [1]</answer>"])
    assistant, first, second, problem = [*planner.asked[1][2:], None]
    assert assistant["content"] == "I search."
    names = [(call["id"], call["function"]["arguments"]) for call in assistant["tool_calls"]]
    assert names == [("call01000", '{"queries": ["a"]}'), ("call01001", "{}")]  # servers refuse invalid JSON
    assert (first["role"], first["tool_call_id"]) == ("tool", "call01000")
    assert first["content"] == (
        "<text_search_result>\nResult 1\nexcerpt:\n[1] a (https://kb/a)\nall about a\n</text_search_result>"
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
    """Returns a tool that opens a web page."""
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
    answer = asyncio.run(engine.run(policy_of(mode), "What is it?", image()))
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
