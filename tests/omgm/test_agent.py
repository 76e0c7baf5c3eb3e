"""An agent on a real index of six flags, with a scripted server on loopback as its planner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chat_models.chat import ChatClient
from chat_models.replies import ChatReply
from omgm.__main__ import main
from omgm.agent import Agent
from omgm.api import OMGM
from retriever.trail_views import TrailOut
from search_agents.budget import Budget
from search_agents.corpus import Corpus
from search_agents.model import ChatPlanner
from search_agents.policies import policy_names
from search_agents.records import Source
from search_agents.regions import Box
from search_agents.tools.frozen import frozen_search
from tests.fakes.inputs import planner, with_settings
from tests.fakes.planner import calling, text_of
from tests.fakes.scripted_server import ScriptedServer

QUESTION = "What is the capital of the country whose flag this is?"


@pytest.fixture(scope="module")
def omgm(examples: Path) -> Iterator[OMGM]:
    with OMGM.open(examples / "index") as omgm:
        yield omgm


def verdict(sufficient: bool, answer: str = "", missing: str = "") -> str:
    return json.dumps({"sufficient": sufficient, "answer": answer, "sources": [1], "missing": missing})


def test_auto_ends_where_the_evidence_suffices(omgm: OMGM, examples: Path) -> None:
    with (
        ScriptedServer([verdict(True, "Tokyo")]) as server,
        Agent(omgm, ChatPlanner(ChatClient(server.url, "scripted"))) as agent,
    ):
        answer = agent.ask(examples / "photo.jpg", QUESTION)
    assert answer.answer == "Tokyo"
    assert [claim.sources for claim in answer.claims] == [(1,)]
    assert answer.sources[0].title == "Japan" and "Tokyo" in answer.sources[0].text
    assert [[record.call.tool for record in one.calls] for one in answer.rounds] == [["ask_index"], []]
    [body] = server.bodies
    assert "Proposed answer: Tokyo" in text_of(body["messages"][1])
    assert "tools" not in body and body["response_format"]["type"] == "json_schema"


def test_auto_goes_on_where_it_does_not(omgm: OMGM, examples: Path) -> None:
    script: list[str | ChatReply] = [
        verdict(False, missing="the capital of France"),
        calling("text_search", '{"queries": ["capital of France"]}'),
        "<answer>Paris [9]</answer>",
    ]
    with ScriptedServer(script) as server, Agent(omgm, ChatPlanner(ChatClient(server.url, "scripted"))) as agent:
        answer = agent.ask(examples / "photo.jpg", "And of the one that won the cup there?")
    assert answer.answer == "Paris"
    [found] = answer.rounds[1].calls
    assert answer.sources[found.numbers[0] - 1].title == "France"
    asked = text_of(server.bodies[1]["messages"][1])
    assert "Still missing: the capital of France" in asked and "[1] Japan" in asked
    assert [tool["function"]["name"] for tool in server.bodies[1]["tools"]] == [
        "image_search", "text_search", "zoom_in", "rotate", "sharpen", "ocr", "open_page",
    ]  # fmt: skip


def test_auto_falls_back_on_the_index_only_if_nobody_distrusts_it(omgm: OMGM, examples: Path) -> None:
    with (
        ScriptedServer([verdict(False), ""]) as server,
        Agent(omgm, ChatPlanner(ChatClient(server.url, "scripted"))) as agent,
    ):
        assert agent.ask(examples / "photo.jpg", QUESTION).abstained
        unasked = agent.ask(examples / "photo.jpg", QUESTION, budget=Budget(tokens=500))
        once = agent.ask(examples / "photo.jpg", QUESTION, budget=Budget(rounds=1))
    assert (unasked.answer, unasked.stopped) == ("Tokyo", "tokens")
    assert (once.answer, once.stopped) == ("Tokyo", "rounds")


def test_regions_are_proposed_if_none_is_given(omgm: OMGM, examples: Path) -> None:
    proposed = [Box(1, 2, 30, 40)]
    script: list[str | ChatReply] = [calling("zoom_in", '{"region": 1}'), "<answer>x</answer>"]
    with (
        ScriptedServer(script * 2) as server,
        Agent(omgm, ChatPlanner(ChatClient(server.url, "scripted")), propose=lambda image: proposed) as agent,
    ):
        answers = [
            agent.ask(examples / "photo.jpg", QUESTION, "mmsearch-plus", boxes=boxes) for boxes in ([], [(5, 5, 9, 9)])
        ]
    names = [list(answer.rounds[0].calls[0].observation.images) for answer in answers]
    assert names == [["image_crop_1_2_30_40"], ["image_crop_5_5_9_9"]]
    assert len(server.bodies[0]["messages"][1]["content"]) == 3  # image, overlay, question


def test_the_command_asks_a_frozen_web(examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def search(query: str) -> list[Source]:
        return [Source("Niger", "a country", "https://web/niger")]

    async def record() -> None:
        await frozen_search(Corpus(tmp_path / "web", record=True), "duckduckgo", search)("Niger")

    asyncio.run(record())
    script: list[str | ChatReply] = [
        calling("web_search", '{"queries": ["Niger", "Mali"]}'),
        "<answer>Niamey [1]</answer>",
    ]
    command = ["ask", "--index", str(examples / "index"), "--mode", "mmsearch-plus"]
    command += with_settings(
        "agents.search_engine=duckduckgo", f"agents.web_corpus={tmp_path / 'web'}", "agents.propose_regions=true",
        "agents.screenshots=true", "agents.prices={web_search = 0.01}",
    )  # fmt: skip
    with ScriptedServer(script) as server:
        command += [*planner(server.url), "--json", str(examples / "photo.jpg"), QUESTION]
        assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"] == "Niamey" and answer["sources"][0]["url"] == "https://web/niger"
    assert answer["spent"]["money"] == 0.02
    assert "Mali: this search is not in the frozen corpus web" in text_of(server.bodies[1]["messages"][-1])


def test_bad_input(omgm: OMGM, examples: Path) -> None:
    with Agent(omgm, ChatPlanner(ChatClient("http://127.0.0.1:9", "scripted", retries=0))) as agent:
        with pytest.raises(ValueError, match=r"mode must be one of auto, .*; got 'magic'"):
            agent.ask(examples / "photo.jpg", QUESTION, "magic")
        with pytest.raises(ValueError, match="has no pixel of the image"):
            agent.ask(examples / "photo.jpg", QUESTION, boxes=[(9000, 0, 9999, 9)])
        unreachable = agent.ask(examples / "photo.jpg", QUESTION)
    assert unreachable.answer == "Tokyo"  # the index's answer, with the reason why it was not inspected
    assert unreachable.stopped == "the model failed"
    assert str(unreachable.failure).startswith("http://127.0.0.1:9/v1/chat/completions: no answer")


def play(messages: list[dict[str, Any]]) -> str | ChatReply:
    if "inspect" in text_of(messages[0]):
        return verdict(False, missing="the area")
    return "<answer>Tokyo [1]</answer>" if len(messages) > 2 else calling("open_page", '{"page": "Japan"}')


def test_the_command_records_and_replays(examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ask", "--index", str(examples / "index"), "--mode", "auto", "--corpus", str(tmp_path / "corpus")]
    command += [str(examples / "photo.jpg"), QUESTION]
    with ScriptedServer(play) as server:
        recording = ["--record", *planner(server.url), "--trail", str(tmp_path / "recorded.json")]
        assert main([*command, *recording]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Tokyo\n\n[1] Japan")
    assert 'open_page {"page": "Japan"} -> [' in printed
    replaying = [*planner(), "--trail", str(tmp_path / "replayed.json"), "--json"]
    assert main([*command, *replaying]) == 0
    assert (tmp_path / "replayed.json").read_bytes() == (tmp_path / "recorded.json").read_bytes()
    trail = json.loads(capsys.readouterr().out)
    assert trail == json.loads((tmp_path / "replayed.json").read_text())
    assert TrailOut.model_validate(trail).model_dump(mode="json") == trail  # what the service answers
    for one in trail["rounds"]:  # and what is printed
        tokens = sum(request["prompt_tokens"] + request["completion_tokens"] for request in one["requests"])
        assert f"Round {one['number']} ({tokens} tokens" in printed
    assert f"{trail['spent']['tokens']} tokens" in printed


def test_the_command_fails_if_the_model_fails(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    command = ["ask", "--index", str(examples / "index"), "--mode", "omnisearch", "--corpus", str(tmp_path / "corpus")]
    command += [*planner(), "--trail", str(tmp_path / "trail.json")]
    assert main([*command, str(examples / "photo.jpg"), QUESTION]) == 2
    printed = capsys.readouterr()
    why = "this request to the model is not in the frozen corpus corpus"
    assert printed.err.endswith(f"omgm: error: the model failed: {why}\n")
    assert printed.out.startswith("(no answer: the model failed)\n") and why not in printed.out
    assert json.loads((tmp_path / "trail.json").read_text())["failure"] == why


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--trail", "a.json"], "--trail needs --mode"),
        (["--mode", "auto"], "generator.base_url is not set; an agent needs it"),
        (["--mode", "auto", "--trail", "a.png"], "--trail: a.png must end in .json or .svg"),
        (["--record"], "--record needs --mode"),
        (
            ["--mode", "auto", *planner(), "--set", "agents.screenshots=true"],
            "agents.screenshots needs agents.contact",
        ),
        (["--mode", "auto", "--record"], "--record needs --corpus DIR"),
        (["--mode", "magic"], "--mode must be one of auto, "),
        (["--mode", "auto", *planner(), "--region", "1;2"], "--region must be X1,Y1"),
    ],
)
def test_the_command_tells_what_is_wrong(
    examples: Path, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", "--index", str(examples / "index"), *options, str(examples / "photo.jpg"), QUESTION]) != 0
    assert told in capsys.readouterr().err


def test_every_policy_is_offered() -> None:
    assert list(policy_names()) == ["auto", "mmsearch-plus", "omnisearch", "mmsearch", "vsa"]
