"""The web: search by a SearXNG server, and pages as text. Whoever builds the tools says how pages may be fetched."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from agents.chunks import CHUNK_CHARACTERS, best_chunks, chunks_of
from agents.state import AgentRun, Observation, Source
from agents.tool import Tool
from agents.tools.index import CHUNKS, TextSearchArguments
from agents.tools.page import Opener

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Takes a URL and the most bytes, and returns the content; raises `ValueError` or `OSError`. It must refuse addresses
of private networks, because models choose the URLs."""
WebSearch = Callable[[str], Awaitable[list[Source]]]
"""Takes a query and returns results, best first."""

_TITLE = re.compile(rb"<title[^>]*>([^<]*)", re.IGNORECASE)
MAX_BYTES = 8 << 20
_LARGE = 500_000
SECONDS = 20.0


def web_search(search: WebSearch, name: str, cost: float = 0.0) -> Tool:
    """Returns the tool of a search engine, which asks all queries of a call at once.

    Args:
        search: Asks the engine.
        name: The engine, for the cache.
        cost: Money per call.
    """

    async def run(arguments: TextSearchArguments, run: AgentRun) -> Observation:
        queries = arguments.queries
        answers = await asyncio.gather(*(search(query) for query in queries), return_exceptions=True)
        sources: dict[Source, None] = {}
        failures = []
        for query, answer in zip(queries, answers, strict=True):
            if isinstance(answer, ValueError | OSError):
                failures.append(f"{query}: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                sources |= dict.fromkeys(answer[: arguments.limit])
        if len(failures) == len(queries):
            raise ValueError("; ".join(failures))
        return Observation(tuple(sources), "\n".join(failures))

    return Tool("web_search", "Searches the web.", TextSearchArguments, run, lambda arguments, run: name, cost)


def searxng(base_url: str, client: httpx.AsyncClient) -> WebSearch:
    """Returns the search of a SearXNG server with its JSON format enabled.

    Args:
        base_url: The server's address.
        client: Sends the requests; for use within one event loop.
    """
    url = f"{base_url.rstrip('/')}/search"

    async def search(query: str) -> list[Source]:
        try:
            response = await client.get(url, params={"q": query, "format": "json"}, timeout=SECONDS)
            response.raise_for_status()
            return [source for row in response.json()["results"] if (source := _result(row)) is not None]
        except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"the search engine failed: {type(error).__name__} {error}"[:300]) from error

    return search


def web_pages(fetch: Fetch) -> Opener:
    """Returns the opener of web pages, by their http(s) URLs."""

    async def open_url(page: str, question: str) -> Observation | None:
        if not page.lower().startswith(("http://", "https://")):
            return None
        content = await fetch(page, MAX_BYTES)
        return await asyncio.to_thread(read_page, content, page, question)

    return open_url


def read_page(content: bytes, url: str, question: str) -> Observation:
    """Returns the parts of an HTML page that fit a question best, without menus and the like.

    Raises:
        ValueError: It holds no text, or the extra `agents` is not installed.
    """
    try:
        from trafilatura import bare_extraction
        from trafilatura.settings import Document
    except ImportError as error:
        raise ValueError("web pages need the extra agents: pip install 'omgm[agents]'") from error
    if b"\0" in content[:1024] or content[:5] == b"%PDF-":
        raise ValueError(f"{url} is not an HTML page")
    large = len(content) > _LARGE  # without a second opinion on what is text, in half the time
    document = bare_extraction(content, url=url, include_comments=False, fast=large)
    if not isinstance(document, Document) or not (text := document.text or "").strip():
        raise ValueError(f"{url} holds no text")
    title = _title(content) or url
    chunks = best_chunks(question, chunks_of(text), CHUNKS)
    return Observation(tuple(Source(title, chunk.text, url, span=(chunk.start, chunk.end)) for chunk in chunks))


def _title(content: bytes) -> str:
    found = _TITLE.search(content[:100_000])
    return "" if found is None else " ".join(html.unescape(found[1].decode(errors="replace")).split())[:300]


def _result(row: Any) -> Source | None:
    url, title, text = (str(row.get(key) or "") for key in ("url", "title", "content"))
    return Source(title or url, text[:CHUNK_CHARACTERS], url) if url.startswith(("http://", "https://")) else None
