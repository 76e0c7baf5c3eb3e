"""Web search engines: SearXNG, SerpAPI and DuckDuckGo, and Google Lens for images."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
from PIL import Image

from chat_models.replies import well_formed
from search_agents.documents import CHUNK_CHARACTERS
from search_agents.records import Source

WebSearch = Callable[[str], Awaitable[list[Source]]]
"""Takes a query and returns results, best first; raises `ValueError` if the engine failed."""
ImageWebSearch = Callable[[Image.Image], Awaitable[list[Source]]]
"""Takes an image and returns pages with similar ones, best first; raises `ValueError` if the engine failed."""
PublishImage = Callable[[Image.Image], Awaitable[str]]
"""Makes an image available to a search engine and returns its URL."""

_MARKUP = re.compile(r"</?(?:b|strong|em|i|mark|span|font|br|p)\b[^<>]*>", re.IGNORECASE)
SECONDS = 20.0
RESULTS = 10
_NO_RESULTS = "hasn't returned any results"
"""SerpAPI reports finding nothing as an error with this text, in a response of status 200."""


def searxng(base_url: str, client: httpx.AsyncClient) -> WebSearch:
    """Returns the search function for a SearXNG server, which must have its JSON format enabled.

    Args:
        base_url: The server's URL.
        client: Sends the requests; for use within one event loop.
    """

    async def search(query: str) -> list[Source]:
        url = f"{base_url.rstrip('/')}/search"
        answer = await _asked(client, url, {"q": query, "format": "json"})
        sources = _sources(answer, "results", "url", "content")
        if not sources and (silent := answer.get("unresponsive_engines")):
            raise ValueError(f"the search engine failed: none of its engines answered: {_reasons(silent)}"[:300])
        return sources

    return search


def serpapi(base_url: str, client: httpx.AsyncClient, key: str) -> WebSearch:
    """Returns the search function for Google via SerpAPI.

    Args:
        base_url: The server's URL.
        client: Sends the requests; for use within one event loop.
        key: The account's key, which never appears in error messages.
    """

    async def search(query: str) -> list[Source]:
        parameters = {"engine": "google", "q": query, "api_key": key}
        return _serpapi_sources(await _asked(client, f"{base_url}/search.json", parameters), "organic_results")

    return search


def google_lens(base_url: str, client: httpx.AsyncClient, key: str, publish: PublishImage) -> ImageWebSearch:
    """Returns the reverse image search with Google Lens via SerpAPI, which fetches the image by its URL.

    Args:
        base_url: The server's URL.
        client: Sends the requests; for use within one event loop.
        key: The account's key, which never appears in error messages.
        publish: Makes an image available on the web.
    """

    async def search(image: Image.Image) -> list[Source]:
        parameters = {"engine": "google_lens", "url": await publish(image), "api_key": key}
        return _serpapi_sources(await _asked(client, f"{base_url}/search.json", parameters), "visual_matches")

    return search


def duckduckgo() -> WebSearch:
    """Returns the search function for DuckDuckGo's HTML page, which needs no key.

    Raises:
        ValueError: The extra `duckduckgo` is not installed.
    """
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        raise ValueError("DuckDuckGo needs the extra duckduckgo: pip install 'omgm[duckduckgo]'") from error

    def ask(query: str) -> list[dict[str, Any]]:
        try:
            return list(DDGS(timeout=int(SECONDS)).text(query, backend="duckduckgo", max_results=RESULTS))
        except DDGSException as error:  # this package does not distinguish no results from a refusal
            raise ValueError(f"the search engine failed: {type(error).__name__} {error}"[:300]) from error

    async def search(query: str) -> list[Source]:
        rows = await asyncio.to_thread(ask, query)
        return _sources({"results": rows}, "results", "href", "body")

    return search


async def _asked(client: httpx.AsyncClient, url: str, parameters: Mapping[str, str]) -> Any:
    """Returns a server's JSON. Error messages do not contain the URL, because it may contain a key."""
    try:
        response = await client.get(url, params=dict(parameters), timeout=SECONDS)
    except httpx.HTTPError as error:
        raise ValueError(f"the search engine failed: {type(error).__name__}") from None
    if response.is_redirect:
        target = httpx.URL(response.headers.get("location", ""))
        raise ValueError(f"the search engine failed: it is not at this address, but at {target.scheme}://{target.host}")
    if response.status_code != 200:
        raise ValueError(f"the search engine failed: status {response.status_code} {_told(response)}".strip())
    try:
        return response.json()
    except ValueError as error:
        raise ValueError("the search engine failed: it did not send JSON") from error


def _reasons(silent: Any) -> str:
    """Returns why SearXNG's engines did not answer, from its pairs of an engine and a reason."""
    return ", ".join(
        f"{one[0]} ({', '.join(map(str, one[1:]))})" if isinstance(one, list) and len(one) > 1 else str(one)
        for one in (silent if isinstance(silent, list) else [silent])
    )


def _told(response: httpx.Response) -> str:
    """Returns the error message in a response, or "" if there is none."""
    try:
        value = response.json()
    except ValueError:
        return ""
    return str(value.get("error", ""))[:200] if isinstance(value, dict) else ""


def _serpapi_sources(answer: Any, rows: str) -> list[Source]:
    problem = answer.get("error") if isinstance(answer, dict) else None
    if problem is not None and rows not in answer:
        if _NO_RESULTS in str(problem):
            return []
        raise ValueError(f"the search engine failed: {str(problem)[:200]}")
    if isinstance(answer, dict) and rows not in answer:
        status = _part(answer, "search_metadata", "status")
        if status not in ("", "Success", "Cached"):
            raise ValueError(f"the search engine failed: the search has the status {status}")
        if "empty" in _part(answer, "search_information", f"{rows}_state").lower():
            return []
    return _sources(answer, rows, "link", "snippet")


def _part(answer: Mapping[str, Any], group: str, name: str) -> str:
    values = answer.get(group)
    return str(values.get(name) or "") if isinstance(values, Mapping) else ""


def _sources(answer: Any, rows: str, url: str, text: str) -> list[Source]:
    """Returns the results in a response, without those that have no http(s) URL."""
    try:
        found = [(str(row.get(url) or ""), row) for row in answer[rows]]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"the search engine failed: its answer has no {rows}") from error
    return [
        Source(_plain(str(row.get("title") or "")) or well_formed(place), _excerpt(row, text), well_formed(place))
        for place, row in found
        if place.startswith(("http://", "https://"))
    ]


def _excerpt(row: Mapping[str, Any], text: str) -> str:
    """Returns a result's excerpt; a visual match has none, but names its source."""
    return _plain(str(row.get(text) or row.get("source") or ""))[:CHUNK_CHARACTERS]


def _plain(text: str) -> str:
    """Returns a text without the markup in which some engines send it."""
    return well_formed(html.unescape(_MARKUP.sub("", text))).strip()
