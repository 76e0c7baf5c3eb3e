"""The web: a SearXNG-like server and pages on loopback, fetched under the rules against private networks."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from chat_models.replies import ChatReply
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Web
from omgm.web_engines import searxng, serpapi
from retriever.files import as_line
from search_agents.browsing.chromium import View
from search_agents.corpus import Corpus
from search_agents.documents import CHUNK_CHARACTERS, WebDocument, best_chunks, chunks_of
from search_agents.engine import Engine
from search_agents.policies.mmsearch_plus import MMSearchPlus
from search_agents.records import Source
from search_agents.tools.page import Screenshot, open_page, slices, slim
from search_agents.tools.web import read_page, web_pages, web_search
from search_agents.trail import AgentAnswer
from tests.fakes.planner import ScriptedPlanner, calling, image, last_text
from tests.fakes.web import FakeWeb, serve_web

pytest.importorskip("trafilatura", reason="needs the extra agents")

PAGE = b"""<html><head><title>Niger</title></head><body><nav><a href="/">Home</a> <a href="/login">Log in</a></nav>
<article><h1>Niger</h1><p>Niger is a landlocked country in West Africa, named after the river that crosses it.</p>
<p>Its capital and largest city is Niamey, which lies on the river and has more than a million people.</p></article>
<footer>All rights reserved</footer></body></html>"""


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    with serve_web({"niger.html": PAGE, "large.html": b"x" * 2000}) as pages:
        yield pages


def fetch_of(allow: frozenset[str], limit: int = 1 << 20) -> Any:
    settings = DownloadSettings(user_agent="test", allow_private=allow, retries=0)

    async def fetch(url: str, most: int) -> WebDocument:
        try:
            async with Web(settings) as opened:
                return WebDocument(await opened.get(url, min(most, limit)))
        except Failure as failure:
            raise ValueError(f"cannot be fetched: {failure}") from failure

    return fetch


def call(tool: str, **arguments: Any) -> ChatReply:
    return calling(tool, json.dumps(arguments))


def opened(url: str, fetch: Any) -> str:
    """Returns the text that the model reads after opening a page."""
    planner = ScriptedPlanner([call("open_page", page=url), "<answer>x</answer>"])
    engine = Engine(planner, [open_page([web_pages(fetch)])])
    asyncio.run(engine.run(MMSearchPlus(), "What is the capital?", image()))
    return last_text(planner.asked[1])


def test_a_page_is_read_without_its_menus(web: FakeWeb) -> None:
    text = opened(web.url("good/niger.html"), fetch_of(frozenset({web.place})))
    assert "largest city is Niamey" in text and "[1] Niger" in text
    assert "Log in" not in text and "rights reserved" not in text


@pytest.mark.parametrize("path", ["good/niger.html", "secret"])
def test_private_networks_are_refused(web: FakeWeb, path: str) -> None:
    for url in (web.url(path), web.url(path).replace("127.0.0.1", "localhost")):
        assert "private_address" in opened(url, fetch_of(frozenset()))
    assert web.log == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://user@127.0.0.1/", "http://", "gopher://a/"])
def test_other_addresses_are_refused(url: str) -> None:
    text = opened(url, fetch_of(frozenset()))
    assert "there is no page" in text or "not_a_url" in text


def test_large_pages_are_not_read(web: FakeWeb) -> None:
    text = opened(web.url("good/large.html"), fetch_of(frozenset({web.place}), limit=1000))
    assert "too_large" in text


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7", b"\x89PNG\0\0", b"<html></html>", b"\xff\xfe\x00"])
def test_a_page_without_text_is_told(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"holds no text|is not an HTML page|damaged PDF"):
        read_page(content, "https://web/x", "What?")


def test_a_page_of_480_000_tokens_does_not_hurt() -> None:
    """Only the chunks relevant to the question are read, wherever they are on the page."""
    filler = [f"<p>Paragraph {n} is about rivers, mountains and weather of region {n}.</p>" for n in range(28_000)]
    filler[20_000] = "<p>The capital of Niger is Niamey.</p>"
    content = f"<html><body><article>{''.join(filler)}</article></body></html>".encode()
    assert len(content) > 4 * 480_000
    seen = read_page(content, "https://web/x", "What is the capital of Niger?")
    assert "Niamey" in seen.sources[0].text
    assert sum(len(source.text) for source in seen.sources) <= 4 * CHUNK_CHARACTERS


def test_chunks_are_spans_of_the_text() -> None:
    text = "A first sentence. " * 100 + "x" * 3000 + "\n\n" + "The end."
    chunks = chunks_of(text)
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(len(chunk.text) <= CHUNK_CHARACTERS for chunk in chunks)
    assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(text.split())
    assert chunks_of("") == chunks_of(" \n ") == [] and best_chunks("a", [], 3) == []


def results(query: str) -> httpx.Response:
    rows: list[Any] = [
        {"url": f"https://web/{query}", "title": query, "content": f"about {query}"},
        {"url": "javascript:alert(1)", "title": "bad"},
        {"url": "https://web/bare"},
    ]
    return httpx.Response(200, json={"results": rows})


def searched(handler: Any, *queries: str, **settings: Any) -> tuple[AgentAnswer, str]:
    async def run() -> tuple[AgentAnswer, str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
            planner = ScriptedPlanner([call("web_search", queries=queries), "<answer>x [1]</answer>"])
            engine = Engine(planner, [web_search(searxng("http://searx/", client), "searx")], **settings)
            answer = await engine.run(MMSearchPlus(), "What?", image())
            return answer, last_text(planner.asked[-1]) if planner.asked else ""

    return asyncio.run(run())


def test_searxng() -> None:
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return results(request.url.params["q"])

    answer, _ = searched(handler, "a", "b")
    assert asked == ["http://searx/search?q=a&format=json", "http://searx/search?q=b&format=json"]
    assert [source.url for source in answer.sources] == ["https://web/a", "https://web/bare", "https://web/b"]


def test_half_an_emoji_in_a_result_is_replaced() -> None:
    body = b'{"results": [{"url": "https://web/a", "title": "t\\ud83d", "content": "cut \\ud83d"}]}'
    answer, _ = searched(lambda request: httpx.Response(200, content=body), "a")
    assert [(source.title, source.text) for source in answer.sources] == [("t\ufffd", "cut \ufffd")]
    assert as_line(answer.as_dict())  # regression: this could not be written to a file


def test_one_query_that_fails_leaves_the_others() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(429) if request.url.params["q"] == "a" else results("b")

    _answer, read = searched(handler, "a", "b")
    assert "a: the search engine failed: status 429" in read and "[1] b" in read


@pytest.mark.parametrize("body", ["<html>", "[]", '{"results": null}', '{"results": [3]}', "{}"])
def test_an_engine_that_sends_anything_else_has_failed(body: str) -> None:
    answer, read = searched(lambda request: httpx.Response(200, text=body), "a")
    assert answer.answer == "x"
    assert "a: the search engine failed" in read


def test_web_searches_are_replayed_without_the_web(tmp_path: Path) -> None:
    recorded, _ = searched(lambda request: results("a"), "a", corpus=Corpus(tmp_path, record=True))

    def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError("the web was asked")

    replayed, _ = searched(never, "a", corpus=Corpus(tmp_path))
    assert replayed.as_dict() == recorded.as_dict()


SHOT = Image.new("RGB", (512, 1500), "white")
SHOT.paste("black", (100, 700, 400, 1400))


def seen(screenshot: Screenshot, *calls: ChatReply, **settings: Any) -> tuple[AgentAnswer, ScriptedPlanner]:
    async def fetch(url: str, most: int) -> WebDocument:
        return WebDocument(b"<html></html>" if "empty" in url else PAGE)

    planner = ScriptedPlanner([*calls, "<answer>x</answer>"])
    engine = Engine(planner, [open_page([web_pages(fetch)], screenshot)], **settings)
    return asyncio.run(engine.run(MMSearchPlus(), "What is the capital?", image())), planner


async def shoot(url: str, view: View) -> Image.Image:
    if "away" in url:
        raise ValueError("the browser failed")
    return SHOT


def test_a_page_is_shown_as_images_if_a_call_asks_for_it() -> None:
    answer, planner = seen(
        shoot,
        call("open_page", page="https://web/a"),
        call("open_page", page="https://web/a", screenshot="top"),
        call("open_page", page="https://web/a", screenshot="full"),
        call("open_page", page="https://web/a", screenshot="all"),
    )
    images = [one.calls[0].observation.images for one in answer.rounds[:4]]
    assert [[image.size for image in of_call.values()] for of_call in images] == [
        [], [(512, 1500)], [(334, 512), (334, 222)], [],
    ]  # fmt: skip
    name = "page_" + hashlib.sha256(b"https://web/a").hexdigest()[:6]
    assert [*images[1], *images[2]] == [f"{name}_top", f"{name}_1", f"{name}_2"]
    assert all("Niamey" in last_text(asked) for asked in planner.asked[1:4])
    assert len([part for part in planner.asked[3][-1]["content"] if part["type"] == "image_url"]) == 2
    assert "wrong arguments of open_page: screenshot" in last_text(planner.asked[4])


def test_text_or_screenshot_is_enough() -> None:
    answer, planner = seen(
        shoot,
        call("open_page", page="https://web/away", screenshot="top"),
        call("open_page", page="https://web/empty", screenshot="top"),
        call("open_page", page="https://web/away/empty", screenshot="top"),
    )
    assert "Niamey" in last_text(planner.asked[1]) and "No screenshot: the browser failed" in last_text(
        planner.asked[1]
    )
    assert "https://web/empty holds no text" in last_text(planner.asked[2])
    assert len(answer.rounds[1].calls[0].observation.images) == 1
    assert answer.rounds[2].calls[0].observation.error == "https://web/away/empty holds no text"


def test_without_a_browser_calls_cannot_ask_for_screenshots() -> None:
    schema = open_page([]).schema()["function"]["parameters"]["properties"]
    assert sorted(schema) == ["page", "question"]
    assert sorted(open_page([], shoot).schema()["function"]["parameters"]["properties"]) == [
        *sorted(schema),
        "screenshot",
    ]


def test_screenshots_are_replayed(tmp_path: Path) -> None:
    opening = call("open_page", page="https://web/a", screenshot="full")
    recorded, _ = seen(shoot, opening, corpus=Corpus(tmp_path, record=True))

    async def never(url: str, view: View) -> Image.Image:
        raise AssertionError("the web was asked")

    replayed, planner = seen(never, opening, corpus=Corpus(tmp_path))
    assert planner.asked == [] and replayed.as_dict() == recorded.as_dict()
    [one] = replayed.rounds[0].calls
    [first, _] = one.observation.images.values()
    assert np.array_equal(np.asarray(first), np.asarray(slices(slim(SHOT))[0]))


def found(**answer: Any) -> Any:
    return lambda request: httpx.Response(200, json=answer)


SILENT = [["brave", "Suspended: too many requests"], ["startpage", "CAPTCHA"]]


def test_engines_that_did_not_answer_are_not_nothing_found() -> None:
    _, read = searched(found(results=[], unresponsive_engines=SILENT), "a")
    assert "none of its engines answered: brave (Suspended: too many requests), startpage (CAPTCHA)" in read
    _, read = searched(found(results=[], unresponsive_engines=[]), "a")
    assert "nothing found" in read
    _, read = searched(found(results=[{"url": "https://web/a", "title": "a"}], unresponsive_engines=SILENT), "a")
    assert "https://web/a" in read and "failed" not in read


async def test_what_failed_in_part_is_searched_again() -> None:
    asked: list[str] = []

    def half(request: httpx.Request) -> httpx.Response:
        query = request.url.params["q"]
        asked.append(query)
        return httpx.Response(429) if query == "b" and asked.count("b") == 1 else results(query)

    async with httpx.AsyncClient(transport=httpx.MockTransport(half)) as client:
        planner = ScriptedPlanner([call("web_search", queries=["a", "b"]), "<answer>x</answer>"] * 3)
        engine = Engine(planner, [web_search(searxng("http://searx/", client), "searx")])
        for _ in range(3):
            await engine.run(MMSearchPlus(), "What?", image())
    assert asked == ["a", "b", "a", "b"]  # the second time, both succeeded and were cached


def test_markup_of_engines_is_no_text() -> None:
    row = {
        "url": "https://web/a",
        "title": "<b>River</b> &amp; more",
        "content": "is <em>40</em> km &#39;long&#39;, 5 < 7",
    }
    _, read = searched(found(results=[row]), "a")
    assert "River & more" in read and "is 40 km 'long', 5 < 7" in read


def test_a_server_that_moved_is_named_without_the_key() -> None:
    moved = {"Location": "https://searx.example/search?q=a&api_key=secret"}
    _, read = searched(lambda request: httpx.Response(301, headers=moved), "a")
    assert "https://searx.example" in read and "secret" not in read


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"search_metadata": {"status": "Processing"}}, "the search has the status Processing"),
        ({"search_metadata": {"status": "Error"}, "error": "out of searches"}, "out of searches"),
        (
            {"search_metadata": {"status": "Success"}, "search_information": {"organic_results_state": "Fully empty"}},
            "",
        ),
    ],
)
def test_serpapis_status(answer: dict[str, Any], said: str) -> None:
    async def search() -> list[Source]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(found(**answer))) as client:
            return await serpapi("http://serp", client, "key")("a")

    if said:
        with pytest.raises(ValueError, match=said):
            asyncio.run(search())
    else:
        assert asyncio.run(search()) == []
