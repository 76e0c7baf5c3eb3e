"""Shows that bugs found in the tools, regions, engines and policies of the published agents are absent here.

`ELSEWHERE` names tests in other files that show one; those of the evaluation are in `tests/evaluation`. Bugs without a
counterpart here are left out: classes in Google's HTML, hard-coded devices, a date in a prompt, missing requirements.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from chat_models.chat import ChatClient
from chat_models.errors import ChatError
from chat_models.messages import Message, image_part
from chat_models.replies import ChatReply, ToolCall
from omgm.web_engines import SECONDS, searxng
from search_agents.documents import CHUNK_CHARACTERS, best_chunks, chunks_of
from search_agents.engine import Engine, Policy
from search_agents.policies import policy_names, policy_of
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.policies.mmsearch_stages import WORDINGS
from search_agents.policies.omnisearch import OmniSearch
from search_agents.policies.vsa import REGIONS, VisionSearchAssistant
from search_agents.records import Observation, Source
from search_agents.regions import Box, overlay
from search_agents.state import AgentRun, Tool
from search_agents.tools.page import slim
from search_agents.trail import AgentAnswer
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.planner import ScriptedPlanner, Words, calling, fake_tool, image, last_text, text_of
from tests.paths import ROOT

ELSEWHERE = {
    "MMSearch: website 0 is the last one, website 9 an IndexError": (
        "policies/test_mmsearch.py::test_a_choice_that_is_none_opens_the_first"
    ),
    "MMSearch: an empty requery": "policies/test_mmsearch.py::test_an_empty_requery_searches_for_the_question",
    "MMSearch: a gray page becomes a column of one pixel": "tools/test_page.py::test_pages_of_any_mode",
    "MMSearch: a pale page becomes empty": "tools/test_page.py::test_pale_texts_are_kept",
    "MMSearch: gaps inside of a sparse page are gone": (
        "tools/test_page.py::test_paragraphs_stay_apart_and_short_gaps_as_they_are"
    ),
    "MMSearch: a browser is started for every page": (
        "browsing/test_chromium.py::test_many_pages_are_opened_by_one_browser_at_once"
    ),
    "OmniSearch: no images after nine in the whole process": (
        "policies/test_omnisearch.py::test_images_are_limited_per_search_not_per_process"
    ),
    "OmniSearch: a tuple as a message's text": "policies/test_omnisearch.py::test_every_message_is_text_or_parts",
    "OmniSearch: a reply without an action does nothing five times": (
        "policies/test_omnisearch.py::test_a_reply_without_an_action_is_asked_again"
    ),
    "OmniSearch: No Retrieval does nothing": "policies/test_omnisearch.py::test_all_four_actions",
    "OmniSearch: a final answer inside a thought ends the run": (
        "policies/test_omnisearch.py::test_a_final_answer_inside_a_thought_ends_nothing"
    ),
    "OmniSearch: a query swallows what follows": "policies/test_omnisearch.py::test_a_query_ends_with_its_line",
    "OmniSearch: the cache is never written": "test_engine.py::test_runs_share_a_cache_that_expires",
    "VSA: alpha, tiny images, any number of regions": (
        "policies/test_vsa.py::test_many_and_tiny_regions_of_an_image_with_alpha"
    ),
    "VSA: the model's code is executed": "policies/test_vsa.py::test_code_is_not_run_and_counts_as_malformed",
    "VSA: URLs of references are lost": "policies/test_vsa.py::test_regions_then_a_graph_then_the_answer",
    "VSA: a failed model ends the process": "test_engine.py::test_a_model_that_fails_is_named_as_the_reason",
    "Perplexica: results are paired by the order in which they come": (
        "test_engine.py::test_searches_of_a_round_run_at_once_and_are_numbered_by_call"
    ),
    "Perplexica: a page of 480,000 tokens": "test_web.py::test_a_page_of_480_000_tokens_does_not_hurt",
    "Perplexica: pages of any size": "test_web.py::test_large_pages_are_not_read",
    "Perplexica: pages of any host": "test_web.py::test_private_networks_are_refused",
}


@pytest.mark.parametrize("bug", ELSEWHERE)
def test_the_test_that_shows_it_exists(bug: str) -> None:
    file, name = ELSEWHERE[bug].split("::")
    assert f"def {name}(" in (ROOT / "tests" / "search_agents" / file).read_text(encoding="utf-8")


def play(policy: Policy, planner: ScriptedPlanner, tools: Sequence[Tool], **given: Any) -> AgentAnswer:
    shown = given.pop("shown", image())
    return asyncio.run(Engine(planner, tools).run(policy, "What is its capital?", shown, **given))


# MMSearch


def test_mmsearch_the_example_of_the_prompt_is_a_website_that_exists() -> None:
    assert re.findall(r"<Website (\d+)>", WORDINGS["image_stage2"]) == ["1"]


def test_mmsearch_a_sparse_page_keeps_what_is_on_it() -> None:
    """The published code reduces a page of 512 x 3000 to 331 x 54 and removes the space between its lines."""
    page = Image.new("RGB", (512, 3000), "white")
    for top in (100, 130, 1500):
        page.paste("black", (100, top, 300, top + 12))
    slimmed = slim(page)
    assert (slimmed.width, slimmed.height) == (200 + 2 + 32, 3 * 14 + 4 * 16)


def searching(status: int = 200) -> list[Source]:
    async def run() -> list[Source]:
        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(status, json={"results": [{"url": "https://a", "title": "a"}]})

        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), trust_env=False) as client:
            return await searxng("http://searx", client)("a")

    return asyncio.run(run())


def test_mmsearch_a_search_does_not_sleep_and_knows_no_world_size(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(seconds: float, *rest: object) -> None:
        assert seconds == 0, f"slept {seconds} s"

    monkeypatch.setattr(asyncio, "sleep", never)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("https_proxy", raising=False)
    assert [source.url for source in searching()] == ["https://a"]


def test_mmsearch_a_busy_engine_is_an_error_that_the_model_reads() -> None:
    """After three responses with status 202, the published search returns nothing at all, and its caller crashes."""
    with pytest.raises(ValueError, match="the search engine failed: status 202"):
        searching(202)


def test_mmsearch_no_part_of_a_chunk_is_cut_off_when_it_is_ranked() -> None:
    """There, the words of a 300-word chunk beyond the model's 200 tokens are ignored."""
    text = "filler " * 160 + "Niamey"
    [chunk] = chunks_of(text)
    assert len(chunk.text) <= CHUNK_CHARACTERS
    other = chunks_of("filler " * 160 + "nothing")
    assert best_chunks("Where is Niamey?", [*other, chunk], 1) == [chunk]


# OmniSearch


def test_omnisearch_a_server_that_fails_is_not_asked_forever() -> None:
    async def run(url: str) -> None:
        async with ChatClient(url, "down", retries=2, backoff=0.001) as client:
            await client.converse([{"role": "user", "content": "a"}], 8)

    with FakeChatServer() as server:
        with pytest.raises(ChatError):
            asyncio.run(run(server.url))
        assert len(server.bodies) == 3


# Vision Search Assistant


def digest(part: Message) -> str:
    return hashlib.sha256(json.dumps(part).encode()).hexdigest()[:8]


class Seeing(ScriptedPlanner):
    """A model for `vsa` that names the image of each request and counts concurrent requests."""

    def __init__(self) -> None:
        super().__init__([""])
        self.running = self.most = 0

    async def reply(self, messages: Sequence[Message], *rest: Any) -> ChatReply:
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(3):
            await asyncio.sleep(0)
        self.running -= 1
        about, parts = text_of(messages[0]), messages[1]["content"]
        shown = "" if isinstance(parts, str) else digest(parts[0])
        if about.startswith("You plan"):
            enough = "response" in last_text(messages)
            questions = [] if enough else [{"region": 1, "question": "a"}, {"region": 1, "question": "b"}]
            return ChatReply(json.dumps({"sufficient": enough, "questions": questions}))
        self.asked.append(list(messages))
        return ChatReply(f"response {shown}" if about.startswith("Answer the sub") else f"seen {shown}")


async def test_vsa_runs_at_once_do_not_mix_their_images() -> None:
    """The published code empties the folder of crops that all requests share."""
    planner = Seeing()

    engine = Engine(planner, [fake_tool("text_search")])
    shown = [image("red"), image("blue")]
    answers = await asyncio.gather(*(engine.run(VisionSearchAssistant(), "What?", one) for one in shown))
    assert [answer.answer for answer in answers] == [f"seen {digest(image_part(image(c)))}" for c in ("red", "blue")]


def test_vsa_regions_are_capped_and_described_at_once() -> None:
    planner = Seeing()
    boxes = [Box(n, 0, n + 10, 10) for n in range(30)]
    answer = play(VisionSearchAssistant(), planner, [fake_tool("text_search")], boxes=boxes)
    captions = [request for request in answer.rounds[0].requests if request.purpose == "caption"]
    assert len(captions) == planner.most == REGIONS


@pytest.mark.parametrize("size", [(1, 1), (5, 29), (29, 5)])
def test_vsa_tiny_images_with_alpha_can_be_sent_and_numbered(size: tuple[int, int]) -> None:
    """There, RGBA cannot be saved as JPEG, and below 30 pixels the font has no size."""
    tiny = Image.new("RGBA", size, (255, 0, 0, 128))
    assert image_part(tiny)["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert overlay(tiny, [Box(0, 0, *size)]).size == size


# MindSearch


def test_mindsearch_responses_reach_the_next_questions() -> None:
    """There, a type mismatch in a comparison keeps the answers of a node's parents from being passed on."""
    updates = iter(["a", "b"])

    class Planning(ScriptedPlanner):
        async def reply(self, messages: Sequence[Message], *rest: Any) -> ChatReply:
            await super().reply(messages, *rest)
            if text_of(messages[0]).startswith("You plan"):
                rows = [{"region": 1, "question": question} for question in [next(updates, None)] if question]
                return ChatReply(json.dumps({"sufficient": not rows, "questions": rows}))
            return ChatReply("Niamey [1]")

    planner = Planning([""])
    play(VisionSearchAssistant(), planner, [fake_tool("text_search")])
    planning = [asked for asked in planner.asked if text_of(asked[0]).startswith("You plan")]
    assert "Sub-question 1 (region 1): a Niamey [1]" in last_text(planning[1])


def test_mindsearch_a_question_without_results_is_no_crash() -> None:
    planner = ScriptedPlanner(['{"sufficient": false, "questions": ["a"]}'])
    answer = play(VisionSearchAssistant(), planner, [fake_tool("text_search", lambda arguments: Observation())])
    assert any("Nothing was found." in last_text(asked) for asked in planner.asked)
    assert answer.answer is None and answer.failure is None  # a plan is no answer


def test_mindsearch_code_in_a_reply_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "run"
    code = f"```python\nimport os\nopen({str(mark)!r}, 'w')\n```"
    for name in policy_names():
        tools = [fake_tool("text_search"), fake_tool("image_search"), fake_tool("open_page"), fake_tool("ask_index")]
        play(policy_of(name), ScriptedPlanner([code, calling("text_search", code), code]), tools)
    assert not mark.exists()


# Perplexica


def test_perplexica_a_search_has_a_time_limit() -> None:
    limits: list[Any] = []

    async def run() -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            limits.append(request.extensions["timeout"])
            raise httpx.ReadTimeout("silent")

        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), timeout=None) as client:
            await searxng("http://searx", client)("a")

    with pytest.raises(ValueError, match="the search engine failed: ReadTimeout"):
        asyncio.run(run())
    assert limits == [dict.fromkeys(("connect", "read", "write", "pool"), SECONDS)]


@pytest.mark.parametrize("policy", policy_names())
def test_perplexica_a_failure_ends_the_run_and_is_told(policy: str) -> None:
    """There, nothing is awaited and errors are never sent, so the caller waits forever."""
    tools = [fake_tool("text_search"), fake_tool("image_search"), fake_tool("open_page"), fake_tool("ask_index")]
    answer = play(policy_of(policy), ScriptedPlanner([ChatError("out of memory", "http://model", 500)]), tools)
    assert answer.abstained and answer.stopped == "the model failed"
    assert str(answer.failure) == "http://model: out of memory"


def test_perplexica_results_belong_to_their_calls() -> None:
    """The second search finishes first; each call keeps its own results."""
    first_may_end = asyncio.Event()

    async def search(arguments: Words, state: AgentRun) -> Observation:
        [query] = arguments.queries
        if query == "slow":
            await first_may_end.wait()
        first_may_end.set()
        return Observation((Source(query, f"about {query}", query),))

    calls = tuple(ToolCall("text_search", json.dumps({"queries": [query]}), query) for query in ("slow", "fast"))
    tool = Tool("text_search", "", Words, search, lambda arguments, state: "")
    planner = ScriptedPlanner([ChatReply("", calls), "<answer>x</answer>"])
    answer = play(MMSearchPlus(), planner, [tool])
    assert [record.observation.sources[0].title for record in answer.rounds[0].calls] == ["slow", "fast"]
    told = [message["content"] for message in planner.asked[1] if message["role"] == "tool"]
    assert ["about slow" in text for text in told] == [True, False]
    assert ["about fast" in text for text in told] == [False, True]


def test_the_order_of_actions_is_that_of_the_reply_not_of_a_list() -> None:
    """OmniSearch's published loop looks for phrases anywhere; a query that names another action is still a query."""
    reply = "<search> Text Retrieval: what is Image Retrieval with Input Image </search>"
    answer = play(OmniSearch(), ScriptedPlanner([reply, "a", "<end> Final Answer: x </end>"]),
                  [fake_tool("text_search"), fake_tool("image_search")])  # fmt: skip
    assert [record.call.tool for record in answer.rounds[0].calls] == ["text_search"]
