"""A profile's settings for the service's agents: web access, prices and limits."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from chat_models.replies import ChatReply
from omgm.agent import access_of
from omgm.modes import modes_of
from omgm.profile import load_profile
from omgm.settings import AgentSettings
from omgm.web_access import TOOLS, WebSettings, web_of
from search_agents.corpus import Corpus
from search_agents.documents import WebDocument
from search_agents.records import Source
from search_agents.regions import Box
from search_agents.tools.frozen import frozen_fetch, frozen_search
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.models import FakeEncoder
from tests.fakes.modes import agents
from tests.fakes.planner import ScriptedPlanner, calling
from tests.fakes.service import served
from tests.fakes.web import FakeWeb, serve_web

SEARCH = calling("web_search", '{"queries": ["wave length", "violet light"]}')
OPEN = calling("open_page", '{"page": "[1]"}')
ANSWER = "<answer>About 400 nm [1].</answer>"
PAGE = (
    b"<html><title>Violet</title><body><p>"
    + b"Violet light has a wave length of about 400 nm. " * 9
    + b"</p></body></html>"
)


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with serve_web({"page": PAGE}) as web:
        row = {"title": "Violet", "url": web.url("good/page"), "content": "a color"}
        web.files["search"] = json.dumps({"results": [row]}).encode()
        yield web


def answer(folder: Path, *script: str | ChatReply, asked: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Returns the response of a service whose agents have these settings."""
    with served(folder, modes=agents(script, **settings)) as world:
        content = {"image": data_uri(image_bytes("red")), "question": "Which wave length has violet?"}
        body = {**content, "mode": "mmsearch-plus", **(asked or {})}
        return httpx.post(f"{world.url}/answer", json=body, timeout=30, trust_env=False).json()


def of_web(web: FakeWeb, **more: Any) -> dict[str, Any]:
    return {"searxng_url": web.url("good"), "contact": "me@example.org", "allow_private": (web.place,), **more}


def test_searches_and_pages_of_the_web_with_their_prices(tmp_path: Path, web: FakeWeb) -> None:
    prices = {"web_search": 0.25, "open_page": 0.125}
    found = answer(tmp_path, SEARCH, OPEN, ANSWER, prices=prices, completion_price=1e6, **of_web(web))
    trail = found["trail"]
    assert found["answer"] == "About 400 nm." and trail["sources"][0]["url"] == web.url("good/page")
    calls = [call for one in trail["rounds"] for call in one["calls"]]
    assert [(call["tool"], call["cost"], call["error"]) for call in calls] == [
        ("web_search", 0.5, ""), ("open_page", 0.125, ""),
    ]  # fmt: skip
    requests = [request["money"] for one in trail["rounds"] for request in one["requests"]]
    assert trail["spent"]["money"] == pytest.approx(sum(requests) + 0.625)


def test_money_is_a_hard_stop_that_answers(tmp_path: Path, web: FakeWeb) -> None:
    settings = of_web(web, money=1, prices={"web_search": 0.3}, calls={"open_page": 0})
    found = answer(tmp_path, SEARCH, SEARCH, OPEN, ANSWER, **settings)["trail"]
    errors = [call["error"] for one in found["rounds"] for call in one["calls"]]
    assert errors[0] == "" and errors[1] == ""  # the second search is in the cache
    assert errors[2] == "open_page has been called 0 times, which is all that the budget allows; answer without it"
    assert (found["answer"], found["spent"]["money"]) == ("About 400 nm.", 0.6)
    other = calling("web_search", '{"queries": ["indigo"]}')
    found = answer(tmp_path, SEARCH, other, ANSWER, **settings)["trail"]
    assert "costs more than the budget has left" in found["rounds"][1]["calls"][0]["error"]
    assert (found["answer"], found["spent"]["money"]) == ("About 400 nm.", 0.6)


def test_money_of_the_model_ends_the_rounds_and_keeps_the_last_word(tmp_path: Path) -> None:
    """A reply of at most 1,024 tokens may cost 1.024; the last one, of 256, fits into the reserve."""
    found = answer(
        tmp_path,
        *[calling("text_search", f'{{"queries": ["a{n}"]}}') for n in range(9)],
        money=1.27,
        completion_price=1000,
    )
    assert found["trail"]["stopped"] == "money" and found["trail"]["spent"]["money"] <= 1.27
    assert [request["purpose"] for one in found["trail"]["rounds"] for request in one["requests"]] == ["conclude"]


def test_a_frozen_web_is_replayed(tmp_path: Path) -> None:
    async def record() -> None:
        corpus = Corpus(tmp_path / "web", record=True)

        async def search(query: str) -> list[Source]:
            return [Source("Violet", "a color", "https://web/violet")]

        async def fetch(url: str, limit: int) -> WebDocument:
            return WebDocument(PAGE)

        for query in ("wave length", "violet light"):
            await frozen_search(corpus, "duckduckgo", search)(query)
        await frozen_fetch(corpus, fetch)("https://web/violet", 10_000)

    asyncio.run(record())
    settings: dict[str, Any] = {"search_engine": "duckduckgo", "web_corpus": str(tmp_path / "web")}
    found = answer(tmp_path, SEARCH, OPEN, ANSWER, **settings)["trail"]
    assert [call["error"] for one in found["rounds"] for call in one["calls"]] == ["", ""]
    assert "about 400 nm" in found["sources"][1]["text"] and found["answer"] == "About 400 nm."


def test_regions_are_proposed(tmp_path: Path) -> None:
    def propose(image: Image.Image) -> list[Box]:
        return [Box(1, 2, 30, 40)]

    planner = ScriptedPlanner([calling("zoom_in", '{"region": 1}'), ANSWER] * 2)
    with served(tmp_path, modes=agents(planner, propose)) as world:
        body = {"image": data_uri(image_bytes("red")), "question": "What is it?", "mode": "mmsearch-plus"}
        names = []
        for boxes in (None, [[5, 5, 9, 9]]):
            found = httpx.post(f"{world.url}/answer", json=body | {"boxes": boxes}, timeout=30, trust_env=False).json()
            names += found["trail"]["rounds"][0]["calls"][0]["images"]
    assert names == ["image_crop_1_2_30_40", "image_crop_5_5_9_9"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"search_engine": "searxng"}, "searxng needs the address of its server"),
        ({"search_engine": "duckduckgo", "searxng_url": "http://a"}, "select two engines"),
        ({"screenshots": True}, "agents.screenshots needs agents.contact"),
        ({"publish_dir": "a"}, "agents.publish_dir and agents.publish_url belong together"),
        ({"publish_dir": "a", "publish_url": "http://a"}, 'with search_engine = "serpapi"'),
        (
            {"web_corpus": "/nowhere"},
            "/nowhere is not a folder that `omgm download --queries` wrote",
        ),
        ({"prices": {"web_serach": 1}}, "agents.prices: there is no tool 'web_serach'; the tools are ask_index"),
        ({"calls": {"search": 1}}, "agents.calls: there is no tool 'search'"),
    ],
)
def test_settings_that_miss_something_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        access_of(AgentSettings(**settings))


def test_the_names_of_tools_are_those_of_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPAPI_API_KEY", "secret")
    settings: dict[str, Any] = {"search_engine": "serpapi", "publish_dir": str(tmp_path), "publish_url": "https://a"}
    web = web_of(AgentSettings(**settings))
    assert isinstance(web, WebSettings) and web.published == (tmp_path, "https://a")
    planner = ScriptedPlanner([calling("nothing"), ANSWER])
    found: list[str] = []
    with served(tmp_path, modes=agents(planner, **settings)) as world:
        body = {"image": data_uri(image_bytes("red")), "question": "What is it?", "mode": "mmsearch-plus"}
        trail = httpx.post(f"{world.url}/answer", json=body, timeout=30, trust_env=False).json()["trail"]
        found = (
            trail["rounds"][0]["calls"][0]["error"]
            .removeprefix("there is no tool 'nothing'; the tools are ")
            .split(", ")
        )
    assert set(found) == TOOLS


def names(searcher: Any, **settings: Any) -> list[str]:
    """Returns the names of a service's modes."""
    profile = load_profile(
        "embedded", {"generator.base_url": "http://127.0.0.1:9/v1", "generator.model": "m", **settings}
    )
    modes = modes_of(profile, FakeEncoder())
    assert modes is not None
    return list(modes.open(searcher, AsyncExitStack()))


def test_modes_without_the_required_prompts_are_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert names(None, **{"agents.prompts": "paper"}) == ["auto"]  # it has no paper
    assert "omgm download --prompts mmsearch" in caplog.text
    assert names(None) == ["auto", "mmsearch-plus", "omnisearch", "mmsearch", "vsa"]
