"""A thousand malformed model outputs: no crash, no endless loop, always an answer or an abstention."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from chat_models.replies import ChatReply, ToolCall
from search_agents.answers import cited, plain_answer, without_citations
from search_agents.budget import Budget
from search_agents.calls import calls_of
from search_agents.engine import Engine, Policy
from search_agents.parsing import is_abstention, json_object, without_thoughts
from search_agents.policies import policy_names, policy_of
from search_agents.policies.auto import read_verdict
from search_agents.policies.omnisearch import read_step
from search_agents.policies.vsa import read_update
from search_agents.records import Observation, Source
from search_agents.regions import Box
from search_agents.state import Tool
from search_agents.tools.images import rotate, zoom_in
from search_agents.tools.index import IndexTools
from search_agents.tools.page import open_page
from tests.fakes.planner import ScriptedPlanner, image
from tests.fakes.searcher import FakeSearcher
from tests.fakes.world import FakeIndex, FakeRetriever

CASES = 250
INDEX = FakeIndex()

WHOLE = [
    '<tool_call>{"name": "text_search", "arguments": {"queries": ["Redland", "wave"]}}</tool_call>',
    '<tool_call>{"name": "image_search", "arguments": {"image": "image", "region": 1}}</tool_call>',
    '{"name": "zoom_in", "arguments": {"box": [0, 0, 10, 10]}}',
    '{"sufficient": false, "answer": "", "sources": [], "missing": "", "questions": [{"region": 1, "question": "a"}]}',
    '{"sufficient": true, "answer": "700", "sources": [1], "missing": "", "questions": []}',
    "<thought> Final Answer: 700 <sub-question> Which? </sub-question><search> Text Retrieval: wave </search>",
    "<thought>so</thought><search> Image Retrieval with Input Image </search>",
    "<thought>so</thought><search> Image Retrieval with Text Query: flag </search>",
    "<search> No Retrieval </search>",
    "<end> Final Answer: 700 nm [1] </end>",
    "<Website 1>",
    "<answer>700 nm [1][99]</answer>",
    "<think>Final Answer: <answer>no</answer></think> I would look.",
    'Thought: so\nAction: text_search\nAction Input: {"queries": ["wave"]}',
    '<function=text_search><parameter=queries>["wave"]</parameter></function>',
    '[text_search(queries=["wave"]), zoom_in(box=[0, 0, 9, 9])]',
    '{"thought": "so", "sub-question": "Which?", "search": "Text Retrieval: wave"}',
    'graph.add_node(node_name="a", node_content="Which?")\ngraph.add_response_node(node_name="response")',
    "Sufficient: yes. Answer: 700 nm [Result 1]",
]
NAMES = ["text_search", "image_search", "zoom_in", "rotate", "open_page", "find_images", "ask_index", "exec", "", "🦊"]
VALUES: list[object] = [
    None, True, -1, 1e308, float("nan"), "", "x" * 2000, [], {}, [[]], {"a": {"b": []}}, ["a"] * 99, "image",
    "[1]", "[99]", [0, 0, 10, 10], [10, 10, 0, 0], ["a", 1, None, 2], [900, 900, 950, 950], 99, "\x00\ud800",
]  # fmt: skip
FIELDS = [
    "queries",
    "query",
    "image",
    "image_name",
    "region",
    "bbox_index",
    "box",
    "page",
    "question",
    "exclude",
    "degrees",
    "limit",
]


def malformed(random_: random.Random) -> str | ChatReply:
    """Returns a reply that is malformed in one of many ways."""
    whole = random_.choice(WHOLE)
    choices: list[Callable[[], str | ChatReply]] = [
        lambda: whole,
        lambda: whole[: random_.randrange(len(whole) + 1)],
        lambda: whole[random_.randrange(len(whole)) :],
        lambda: "".join(random_.sample(whole, len(whole))),
        lambda: whole.replace('"', "'"),
        lambda: f"<think>{whole}",
        lambda: f"{whole}\n{random_.choice(WHOLE)}",
        lambda: f"```json\n{whole}\n```",
        lambda: random_.choice(["", " ", "\x00", "{" * 1500, "[" * 1500, "<" * 1500, '{"a":' * 1500, "</answer>"]),
        lambda: "<thought>" * 100 + whole + "</search>" * 100,
        lambda: ChatReply(whole, (ToolCall(random_.choice(NAMES), whole),)),
        lambda: ChatReply("", (ToolCall(random_.choice(NAMES), json.dumps(arguments(random_))),) * 30),
        lambda: written(random_.choice(VALUES), random_.choice(VALUES)),
        lambda: written(random_.choice(NAMES), arguments(random_)),
    ]  # fmt: skip
    return random_.choice(choices)()


def written(name: object, given: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': given})}</tool_call>"


def arguments(random_: random.Random) -> dict[str, object]:
    return {name: random_.choice(VALUES) for name in random_.sample(FIELDS, random_.randint(0, 4))}


def tools() -> list[Tool]:
    retriever = FakeRetriever(INDEX)

    async def web(page: str, question: str) -> Observation | None:
        return Observation((Source(page, "a page", page),)) if page.startswith("http") else None

    index = IndexTools(FakeSearcher(INDEX, lambda query: retriever.retrieve([query])[0], "700"))
    return [*index.tools(), open_page([index.opener, web]), zoom_in(), rotate()]


@pytest.mark.slow
async def test_malformed_runs() -> None:
    """Every policy gets a random sequence of replies."""

    given = tools()

    async def one(case: int) -> tuple[bool, int, int]:
        random_ = random.Random(case)
        planner = ScriptedPlanner(lambda text: malformed(random_))
        policy: Policy = policy_of(policy_names()[case % len(policy_names())])
        budget = Budget(tokens=1_000_000, malformed=8)
        answer = await Engine(planner, given).run(policy, "wave length?", SMALL, boxes=[Box(0, 0, 9, 9)], budget=budget)
        json.dumps(answer.as_dict())
        assert answer.abstained or (answer.answer or "").strip()
        assert all(1 <= number <= len(answer.sources) for claim in answer.claims for number in claim.sources)
        return answer.abstained, answer.malformed, len(planner.asked)

    results = [await one(case) for case in range(CASES)]
    assert max(requests for *_, requests in results) < 60
    assert any(abstained for abstained, *_ in results) and not all(abstained for abstained, *_ in results)
    assert sum(malformed for _, malformed, _ in results) > 2 * CASES


SMALL = image().resize((40, 30))
PIECES = ['{"', "<answer>", "</think>", "<think>", "\n", "[1]", "é", "}", ":", "a", "<tool_call>"]


@pytest.mark.parametrize("seed", range(3))
def test_parsers_take_any_text(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(300):
        text = "".join(random_.choice(PIECES) for _ in range(random_.randrange(60)))
        calls_of(ChatReply(text))
        without_thoughts(text), plain_answer(ChatReply(text)), json_object(text), is_abstention(text)


@pytest.mark.slow
def test_long_replies_are_read_at_once() -> None:
    """Reading takes time in proportion to the length: quadratic time would be minutes here."""
    for piece in (*PIECES, "{", '{"a":', "<", "I don't know ", "[1", " \n", "[[", "\u3010", "add_node(", "answer: "):
        text = piece * (500_000 // len(piece))
        calls_of(ChatReply(text))
        plain_answer(ChatReply(text)), is_abstention(text), without_citations(text[:100_000]), cited(text[:100_000])
        read_step(text), read_update(text), read_verdict(text)
