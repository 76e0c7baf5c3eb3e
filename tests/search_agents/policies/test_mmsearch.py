"""MMSearch-Engine with scripted replies, and the bugs of the published code."""

from __future__ import annotations

import asyncio

import pytest

from search_agents.engine import Engine
from search_agents.policies.mmsearch import MMSearch
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool
from search_agents.tools.page import PageArguments
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, Words, fake_tool, image, last_text, text_of


def run(*replies: str, found: int = 8) -> tuple[AgentAnswer, ScriptedPlanner]:
    planner = ScriptedPlanner(list(replies))

    def search(arguments: Words) -> Observation:
        return Observation(tuple(Source(f"site {n}", f"snippet {n}", f"https://web/{n}") for n in range(1, found + 1)))

    async def page(arguments: PageArguments, run: AgentRun) -> Observation:
        return Observation((Source(arguments.page, f"all of {arguments.page}", arguments.page),))

    tools = [
        fake_tool("image_search", lambda arguments: Observation((Source("Niger", "a country", "https://kb/niger"),))),
        fake_tool("text_search", search),
        Tool("open_page", "", PageArguments, page),
    ]
    return asyncio.run(Engine(planner, tools).run(MMSearch(), "What is its capital?", image())), planner


def test_the_four_steps() -> None:
    answer, planner = run('Query: "Niger capital"\nI hope it helps.', "<Website 2>", "Niamey [10]")
    assert answer.answer == "Niamey"
    assert [[record.call.tool for record in one.calls] for one in answer.rounds] == [
        ["image_search"], ["text_search"], ["open_page"], [],
    ]  # fmt: skip
    assert answer.rounds[1].calls[0].call.arguments == {"queries": ["Niger capital"], "limit": 8}
    assert answer.rounds[2].calls[0].call.arguments == {"page": "https://web/2", "question": "Niger capital"}
    assert [(claim.text, claim.sources) for claim in answer.claims] == [("Niamey", (10,))]
    requery, rerank, summarize = planner.asked
    assert "[1] Niger" in last_text(requery) and "[1] Niger" in last_text(rerank)
    assert "Website 1 Title: [2] site 1 (https://web/1);\nWebsite 1 snippet: snippet 1;" in last_text(rerank)
    assert "\n\nWebsite 8 Title: [9] site 8" in last_text(rerank)
    assert "Website Title: [3] site 2 (https://web/2);\n Website Snippet: snippet 2;\n" in last_text(summarize)
    assert "[10] https://web/2" in last_text(summarize)
    assert "<Website 0>" not in text_of(rerank[0])  # the example of the published prompt


@pytest.mark.parametrize("choice", ["<Website 0>", "<Website 9>", "<Website -1>", "the second", "<Website>", ""])
def test_a_choice_that_is_none_opens_the_first(choice: str) -> None:
    """In the published code 0 is the last site and 9 an IndexError."""
    answer, _ = run("Niger capital", choice, "Niamey")
    assert answer.rounds[2].calls[0].call.arguments == {"page": "https://web/1", "question": "Niger capital"}
    assert answer.malformed == 1
    assert answer.rounds[2].problem.startswith("no website of 1 to 8 was chosen")
    assert answer.answer == "Niamey"


def test_the_last_website_is_not_out_of_range() -> None:
    answer, _ = run("q", "<website 3>", "Niamey", found=3)
    assert answer.rounds[2].calls[0].call.arguments == {"page": "https://web/3", "question": "q"}


def test_an_empty_requery_searches_for_the_question() -> None:
    answer, _ = run("", "<Website 1>", "Niamey")
    assert answer.rounds[1].calls[0].call.arguments == {"queries": ["What is its capital?"], "limit": 8}


def test_nothing_found_is_an_abstention() -> None:
    answer, planner = run("q", found=0)
    assert answer.abstained and len(planner.asked) == 1


def test_an_unknown_answer_is_an_abstention() -> None:
    assert run("q", "<Website 1>", "Unknown.")[0].abstained
    assert run("q", "<Website 1>", "invalid question")[0].answer == "invalid question"


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("Query to the search engine: Niger capital", "Niger capital"),
        ('"Niger capital"', "Niger capital"),
        ("```\nNiger capital\n```", "Niger capital"),
        ("<think>Query: no</think>\n1. Search query\uff1a Niger capital\nThis helps.", "Niger capital"),
        (" ".join(["word"] * 150), " ".join(["word"] * 100)),
        ("To answer this, I look for the club first.\nQuery: Niger capital", "Niger capital"),
        ('Here is the query: "Niger capital"', "Niger capital"),
        ('{"query": "Niger capital"}', "Niger capital"),
        ('{"queries": ["Niger capital", "Niamey"]}', "Niger capital"),
        ('```json\n{"search_query": "Niger capital"}\n```', "Niger capital"),
    ],
)
def test_queries_as_models_write_them(reply: str, query: str) -> None:
    answer, _ = run(reply, "<Website 1>", "Niamey")
    assert answer.rounds[1].calls[0].call.arguments == {"queries": [query], "limit": 8}


def test_a_question_in_words_alone_begins_with_the_query() -> None:
    planner = ScriptedPlanner(["Niger capital", "< website 1 >", "Answer: Niamey"])
    tools = [fake_tool("text_search"), fake_tool("image_search"), fake_tool("open_page")]
    answer = asyncio.run(Engine(planner, tools).run(MMSearch(), "What is Niger's capital?", None))
    assert answer.answer == "Niamey" and answer.malformed == 0
    assert [record.call.tool for one in answer.rounds for record in one.calls] == ["text_search", "open_page"]


def test_websites_are_shown_where_pages_can_be() -> None:
    """The first screen of eight pages for the choice, the whole chosen page for the answer."""

    class ViewArguments(PageArguments):
        screenshot: str = "none"

    async def page(arguments: ViewArguments, run: AgentRun) -> Observation:
        shots = {f"{arguments.page}_{n}": image() for n in range(1 if arguments.screenshot == "top" else 3)}
        return Observation((Source("t", "text", arguments.page),), images=shots)

    found = Observation(tuple(Source(f"site {n}", "snippet", f"https://web/{n}") for n in range(9)))
    planner = ScriptedPlanner(["query", "<Website 8>", "Niamey"])
    tools = [fake_tool("text_search", lambda arguments: found), Tool("open_page", "", ViewArguments, page)]
    answer = asyncio.run(Engine(planner, tools).run(MMSearch(), "What?", None))
    assert [len(one.calls) for one in answer.rounds] == [1, 8, 1, 0]
    assert answer.rounds[2].calls[0].call.arguments == {
        "page": "https://web/7",
        "question": "query",
        "screenshot": "full",
    }
    shown = [sum(part["type"] == "image_url" for part in asked[0]["content"]) for asked in planner.asked[1:]]
    assert shown == [8, 3] and answer.answer == "Niamey"


@pytest.mark.parametrize(
    ("choice", "opened", "malformed"),
    [
        ("<Website 2 >", 2, 0),
        ("**<Website: 2>**", 2, 0),
        ("<website_2>", 2, 0),
        ("<Website Index 2>", 2, 0),
        ("Website 2 helps most.", 2, 1),
        ('{"website": 2}', 2, 1),
        ("2", 2, 1),
        ("Website 2 or Website 3", 1, 1),
        ("Website 12", 1, 1),
    ],
)
def test_choices_as_models_write_them(choice: str, opened: int, malformed: int) -> None:
    answer, _ = run("Niger capital", choice, "Niamey")
    assert answer.rounds[2].calls[0].call.arguments == {"page": f"https://web/{opened}", "question": "Niger capital"}
    assert answer.malformed == malformed
