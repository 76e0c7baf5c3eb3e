"""Search engines against loopback servers that answer in the published formats."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from PIL import Image

from omgm.web_engines import duckduckgo, google_lens, serpapi
from search_agents.records import Source

GOOGLE = {
    "search_metadata": {"id": "1", "status": "Success"},
    "search_parameters": {"engine": "google", "q": "Niger"},
    "organic_results": [
        {"position": 1, "title": "Niger - Wikipedia", "link": "https://en.wikipedia.org/wiki/Niger",
         "displayed_link": "https://en.wikipedia.org/wiki", "snippet": "Niger is a landlocked country."},
        {"position": 2, "title": "Niger", "link": "https://example.org/niger"},
        {"position": 3, "title": "bad", "link": "javascript:alert(1)", "snippet": "x"},
    ],
}  # fmt: skip
LENS = {
    "search_metadata": {"status": "Success"},
    "visual_matches": [
        {"position": 1, "title": "Flag of Niger", "link": "https://example.org/flag", "source": "Example",
         "source_icon": "https://example.org/i.png", "thumbnail": "https://example.org/t.jpg"},
    ],
}  # fmt: skip
EMPTY = {"search_metadata": {"status": "Success"}, "error": "Google hasn't returned any results for this query."}
DUCKDUCKGO = """<html><body><div id="links" class="results">
<div class="result results_links results_links_deep web-result"><div class="links_main links_deep result__body">
<h2 class="result__title">
<a rel="nofollow" class="result__a" href="https://en.wikipedia.org/wiki/Niger">Niger - Wikipedia</a></h2>
<a class="result__snippet" href="https://en.wikipedia.org/wiki/Niger">Niger is a <b>landlocked</b> country.</a>
</div></div></div></body></html>"""

Requests = list[tuple[str, dict[str, list[str]]]]


@contextmanager
def engine(answer: str, status: int = 200) -> Iterator[tuple[str, Requests]]:
    """Yields the URL of a server with a constant response, and the paths and parameters of its requests."""
    asked: Requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            url = urlsplit(self.path)
            asked.append((url.path, parse_qs(body or url.query)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def searched(make: Callable[[httpx.AsyncClient], Callable[[Any], Awaitable[list[Source]]]], query: Any) -> list[Source]:
    async def run() -> list[Source]:
        async with httpx.AsyncClient(trust_env=False) as client:
            return await make(client)(query)

    return asyncio.run(run())


def test_results_of_serpapi_become_sources() -> None:
    with engine(json.dumps(GOOGLE)) as (url, asked):
        found = searched(lambda client: serpapi(url, client, "secret"), "capital of Niger")
    assert found == [
        Source("Niger - Wikipedia", "Niger is a landlocked country.", "https://en.wikipedia.org/wiki/Niger"),
        Source("Niger", "", "https://example.org/niger"),
    ]
    parameters = {"engine": ["google"], "q": ["capital of Niger"], "api_key": ["secret"]}
    assert asked == [("/search.json", parameters)]


def test_google_lens() -> None:
    async def publish(image: Image.Image) -> str:
        return f"https://images.example/{image.width}.png"

    with engine(json.dumps(LENS)) as (url, asked):
        found = searched(lambda client: google_lens(url, client, "secret", publish), Image.new("RGB", (7, 5)))
    assert found == [Source("Flag of Niger", "Example", "https://example.org/flag")]
    assert asked[0][1]["engine"] == ["google_lens"] and asked[0][1]["url"] == ["https://images.example/7.png"]


def test_no_results_is_no_error() -> None:
    with engine(json.dumps(EMPTY)) as (url, _):
        assert searched(lambda client: serpapi(url, client, "secret"), "xyzzy") == []


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        ('{"error": "Invalid API key. Your API key should be here."}', 401, "status 401 Invalid API key"),
        ('{"error": "Your account has run out of searches."}', 429, "status 429 Your account has run out"),
        ('{"error": "We could not process this request"}', 200, "We could not process"),
        ("<html>busy</html>", 200, "it did not send JSON"),
        ("<html>busy</html>", 503, "status 503"),
        ('{"search_metadata": {}}', 200, "its answer has no organic_results"),
        ('{"organic_results": [3]}', 200, "its answer has no organic_results"),
        ("[]", 200, "its answer has no organic_results"),
    ],
)
def test_an_engine_that_fails_is_told_without_the_key(answer: str, status: int, told: str) -> None:
    with (
        engine(answer, status) as (url, _),
        pytest.raises(ValueError, match=f"the search engine failed: {told}") as error,
    ):
        searched(lambda client: serpapi(url, client, "sekret"), "a")
    assert "sekret" not in str(error.value)


def test_an_engine_that_is_away_is_told_without_the_key() -> None:
    with pytest.raises(ValueError, match=r"the search engine failed: ConnectError$"):
        searched(lambda client: serpapi("http://127.0.0.1:1", client, "sekret"), "a")


def test_duckduckgo(monkeypatch: pytest.MonkeyPatch) -> None:
    ddgs = pytest.importorskip("ddgs.engines.duckduckgo", reason="needs the extra duckduckgo")
    with engine(DUCKDUCKGO) as (url, asked):
        monkeypatch.setattr(ddgs.Duckduckgo, "search_url", f"{url}/html/")
        found = asyncio.run(_ask(duckduckgo(), "capital of Niger"))
    assert found == [
        Source("Niger - Wikipedia", "Niger is a landlocked country.", "https://en.wikipedia.org/wiki/Niger")
    ]
    assert [(path, values["q"]) for path, values in asked] == [("/html/", ["capital of Niger"])]


@pytest.mark.parametrize(("status", "answer"), [(200, "<html></html>"), (202, "anomaly")])
def test_duckduckgo_that_finds_nothing_or_refuses_has_failed(
    monkeypatch: pytest.MonkeyPatch, status: int, answer: str
) -> None:
    ddgs = pytest.importorskip("ddgs.engines.duckduckgo", reason="needs the extra duckduckgo")
    with engine(answer, status) as (url, _):
        monkeypatch.setattr(ddgs.Duckduckgo, "search_url", f"{url}/html/")
        with pytest.raises(ValueError, match="the search engine failed: DDGSException No results found"):
            asyncio.run(_ask(duckduckgo(), "a"))


def test_duckduckgo_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ddgs = pytest.importorskip("ddgs.engines.duckduckgo", reason="needs the extra duckduckgo")
    monkeypatch.setattr(ddgs.Duckduckgo, "search_url", "http://127.0.0.1:1/html/")
    with pytest.raises(ValueError, match="the search engine failed"):
        asyncio.run(_ask(duckduckgo(), "a"))


async def _ask(search: Callable[[str], Awaitable[list[Source]]], query: str) -> list[Source]:
    return await search(query)


BOXES = {
    "search_metadata": {"status": "Success"},
    "organic_results": [{"title": "News", "link": "https://example.org/n", "snippet": "Fares rose.", "date": "Nov 20"}],
    "answer_box": {"type": "organic_result", "answer": "7.25 crowns", "title": "Fare"},
    "knowledge_graph": {"title": "Borrel Line", "founded": "1911", "description": "A ferry", "source": {"name": "W"}},
    "related_questions": [{"question": "Where to?", "snippet": "Oskeby.", "link": "https://example.org/q"}],
    "top_stories": [{"title": "Strike", "link": "https://example.org/s"}],
    "related_searches": [{"query": "x", "link": "https://example.org/x"}],
}
PLACE = "https://www.google.com/search?q=a"


def test_all_lists_of_a_reply_are_read_with_dates() -> None:
    with engine(json.dumps(BOXES)) as (url, _):
        found = searched(lambda client: serpapi(url, client, "secret"), "a")
    assert found == [
        Source("Fare", "7.25 crowns", PLACE),
        Source("Borrel Line", "A ferry; founded: 1911; name: W", PLACE),
        Source("News", "(Nov 20) Fares rose.", "https://example.org/n"),
        Source("Where to?", "Oskeby.", "https://example.org/q"),
        Source("Strike", "", "https://example.org/s"),
    ]


@pytest.mark.parametrize("name", ["visual_matches", "exact_matches", "image_results", "pages_with_matching_images"])
def test_reverse_image_search_under_its_several_names(name: str) -> None:
    async def publish(image: Image.Image) -> str:
        return "https://images.example/1.png"

    reply = {name: [{"title": "Flag", "link": "https://example.org/flag", "source": "Example"}]}
    with engine(json.dumps(reply)) as (url, _):
        found = searched(lambda client: google_lens(url, client, "secret", publish), Image.new("RGB", (7, 5)))
    assert found == [Source("Flag", "Example", "https://example.org/flag")]


@pytest.mark.parametrize("status", [200, 401, 302])
def test_a_key_that_an_engine_repeats_is_blacked_out(status: int) -> None:
    key = "serp-planted-1234"
    row = {"title": key, "link": f"https://example.org/?api_key={key}", "snippet": f"key {key}"}
    with engine(json.dumps({"organic_results": [row], "error": "x" * 190 + key}), status) as (url, _):
        try:
            told = str(searched(lambda client: serpapi(url, client, key), "a"))
        except ValueError as error:
            told = str(error)
    assert key not in told and key[:10] not in told
