"""Web search engines: SearXNG, SerpAPI and DuckDuckGo, and Google Lens for images."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx
from PIL import Image

from chat_models.replies import well_formed
from chat_models.secrets import hidden, keep_secret
from search_agents.documents import CHUNK_CHARACTERS
from search_agents.records import Source
from search_agents.tools.web import ImageWebSearch, PublishImage, WebSearch

_MARKUP = re.compile(r"</?(?:b|strong|em|i|mark|span|font|br|p)\b[^<>]*>", re.IGNORECASE)
_BOXES = ("answers", "answer_box", "infoboxes", "knowledge_graph")
_FIRST = (*_BOXES, "exact_matches", "results", "organic_results")
"""The lists of replies that come first; SearXNG, SerpAPI and Google Lens have different ones."""
_ABOUT = frozenset({
    "query", "suggestions", "corrections", "unresponsive_engines", "related_searches", "pagination", "ads", "error",
    "serpapi_pagination", "search_metadata", "search_parameters", "search_information", "filters", "menu_items",
})  # fmt: skip
"""Parts of replies that are not results."""
_URLS = ("url", "link", "href", "id", "source_url", "website")
_TITLES = ("title", "infobox", "name", "question", "heading", "answer_title")
_TEXTS = ("content", "snippet", "body", "answer", "result", "description", "text", "definition")
_DATES = ("publishedDate", "pubdate", "date", "published_date")
"""Names of the same field in the replies of several engines."""
_NO_FACTS = (
    *_DATES,
    "engine",
    "engines",
    "template",
    "parsed_url",
    "position",
    "positions",
    "score",
    "category",
    "type",
)
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
        sources = _sources(answer, "results", f"{hidden(url)}?q={quote(query)}")
        if not sources and (silent := answer.get("unresponsive_engines")):
            raise _failed(f"none of its engines answered: {_reasons(silent)}")
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
        answer = await _asked(client, f"{base_url}/search.json", parameters)
        return _serpapi_sources(answer, "organic_results", f"https://www.google.com/search?q={quote(query)}")

    keep_secret(key)
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
        answer = await _asked(client, f"{base_url}/search.json", parameters)
        return _serpapi_sources(answer, "visual_matches", "https://lens.google.com")

    keep_secret(key)
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
            raise _failed(f"{type(error).__name__} {error}") from error

    async def search(query: str) -> list[Source]:
        rows = await asyncio.to_thread(ask, query)
        return _sources({"results": rows}, "results", f"https://duckduckgo.com/?q={quote(query)}")

    return search


async def _asked(client: httpx.AsyncClient, url: str, parameters: Mapping[str, str]) -> Any:
    """Returns a server's JSON, without keys that it repeats. Error messages do not contain the URL."""
    try:
        response = await client.get(url, params=dict(parameters), timeout=SECONDS)
    except httpx.HTTPError as error:
        raise _failed(type(error).__name__) from None
    if response.is_redirect:
        target = httpx.URL(response.headers.get("location", ""))
        raise _failed(f"it is not at this address, but at {target.scheme}://{target.host}")
    if response.status_code != 200:
        raise _failed(f"status {response.status_code} {_told(response)}")
    try:
        return hidden(response.json())
    except ValueError as error:
        raise _failed("it did not send JSON") from error


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
    return hidden(str(value.get("error", "")))[:200] if isinstance(value, dict) else ""


def _serpapi_sources(answer: Any, rows: str, place: str) -> list[Source]:
    problem = answer.get("error") if isinstance(answer, dict) else None
    try:
        if sources := _sources(answer, rows, place):
            return sources
    except ValueError:
        if problem is None or _NO_RESULTS in str(problem):
            status = _part(answer, "search_metadata", "status")
            if status not in ("", "Success", "Cached"):
                raise _failed(f"the search has the status {status}") from None
            if problem is None and "empty" not in _part(answer, "search_information", f"{rows}_state").lower():
                raise
    if problem is not None and _NO_RESULTS not in str(problem):
        raise _failed(str(problem)[:200])
    return []


def _part(answer: Any, group: str, name: str) -> str:
    values = answer.get(group) if isinstance(answer, Mapping) else None
    return str(values.get(name) or "") if isinstance(values, Mapping) else ""


def _sources(answer: Any, rows: str, place: str) -> list[Source]:
    """Returns everything that a response found: direct answers and boxes, then the results, then all other lists.

    Args:
        answer: The response.
        rows: The list that it must have if it has no other.
        place: The address of what has none of its own.
    """
    lists = answer if isinstance(answer, dict) else {}
    names = sorted(lists, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    found = [
        _source(row, place, is_box=name in _BOXES or isinstance(lists[name], dict))
        for name in names
        if name not in _ABOUT
        for row in _rows(lists[name])
    ]
    sources = [source for source in found if source is not None]
    listed = lists.get(rows)
    if not sources and not (isinstance(listed, list) and all(isinstance(row, dict) for row in listed)):
        raise _failed(f"its answer has no {rows}")
    return list(dict.fromkeys(sources))


def _rows(value: Any) -> list[Any]:
    """Returns the results in a list, in an object with numbers as its keys, or in a box."""
    if isinstance(value, dict):
        return list(value.values()) if value and all(key.isdecimal() for key in value) else [value]
    return [{"answer": row} if isinstance(row, str) else row for row in value] if isinstance(value, list) else []


def _source(row: Any, place: str, *, is_box: bool) -> Source | None:
    """Returns a result or a box as a source; `None` if it has neither an http(s) URL nor a text, or a bad URL."""
    if not isinstance(row, dict):
        return None
    urls = [str(row[name]) for name in _URLS if row.get(name)]
    url = next((one for one in urls if one.startswith(("http://", "https://"))), "")
    if not url and any(row.get(name) for name in _URLS[:3]):
        return None
    title, text, date = (_value(row, names) for names in (_TITLES, _TEXTS, _DATES))
    if is_box or not url:
        text = "; ".join(filter(None, (text, *_facts({key: row[key] for key in row if key not in _TITLES + _TEXTS}))))
    text = text or (_value(row, ("source",)) if url else "")
    if not url and not text:
        return None
    text = f"({date.removesuffix('T00:00:00')}) {text}" if date else text
    url = well_formed(url or place)
    return Source(_plain(title) or url, _plain(text)[:CHUNK_CHARACTERS], url)


def _value(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(row[name]) for name in names if isinstance(row.get(name), str | int | float) and row[name]), "")


def _facts(value: Any, name: str = "") -> Iterator[str]:
    """Yields what a box says beside its text: the names and values in it, without addresses."""
    if isinstance(value, dict) and "label" in value:
        yield f"{value['label']}: {value.get('value')}"
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _facts(one, str(key)) if key not in _NO_FACTS else ()
    elif isinstance(value, list):
        for one in value:
            yield from _facts(one, name)
    elif isinstance(value, str | int | float) and str(value) and not str(value).startswith(("http", "data:")):
        yield f"{name.replace('_', ' ')}: {value}" if name and name not in _TEXTS else str(value)


def _plain(text: str) -> str:
    """Returns a text without the markup in which some engines send it."""
    return well_formed(html.unescape(_MARKUP.sub("", text))).strip()


def _failed(reason: str) -> ValueError:
    return ValueError(hidden(f"the search engine failed: {reason}".strip())[:300])
