"""Web tools: searches, and pages as text. The caller decides how pages are fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from PIL import Image

from search_agents.documents import WebDocument, best_chunks, chunks_of, text_of
from search_agents.records import Observation, Source
from search_agents.state import AgentRun, Tool
from search_agents.tools.images import PartArguments, part_digest, part_of
from search_agents.tools.index import CHUNKS, TextSearchArguments
from search_agents.tools.page import Opener

WebSearch = Callable[[str], Awaitable[list[Source]]]
"""Takes a query and returns results, best first; raises `ValueError` if the engine failed."""
ImageWebSearch = Callable[[Image.Image], Awaitable[list[Source]]]
"""Takes an image and returns pages with similar ones, best first; raises `ValueError` if the engine failed."""
PublishImage = Callable[[Image.Image], Awaitable[str]]
"""Makes an image available to a search engine and returns its URL."""
Fetch = Callable[[str, int], Awaitable[WebDocument]]
"""Takes a URL and a size limit in bytes, and returns the document; raises `ValueError` or `OSError`. It must refuse
addresses on private networks, because models choose the URLs."""

MAX_BYTES = 8 << 20
SIMILAR = 10
"""Maximum number of results of an image search, as in MMSearch-Plus."""


def web_search(search: WebSearch, name: str) -> Tool:
    """Returns the tool of a search engine, which sends all queries of a call concurrently."""

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
        return Observation(tuple(sources), "\n".join(failures), complete=not failures)

    return Tool(
        "web_search",
        "Searches the web.",
        TextSearchArguments,
        run,
        lambda arguments, run: name,
        units=lambda arguments: len(arguments.queries),
    )


def web_image_search(search: ImageWebSearch, name: str) -> Tool:
    """Returns the tool that finds pages with similar images."""

    async def run(arguments: PartArguments, run: AgentRun) -> Observation:
        sources = await search(part_of(arguments, run))
        return Observation(tuple(dict.fromkeys(sources[:SIMILAR])))

    return Tool(
        "web_image_search",
        "Finds web pages with images like this one, or like a region of it.",
        PartArguments,
        run,
        lambda arguments, run: [name, part_digest(arguments, run)],
    )


def web_pages(fetch: Fetch) -> Opener:
    """Returns an opener for web pages by their http(s) URLs."""

    async def open_url(page: str, question: str) -> Observation | None:
        if not page.lower().startswith(("http://", "https://")):
            return None
        document = await fetch(page, MAX_BYTES)
        return await asyncio.to_thread(read_page, document, page, question)

    return open_url


def read_page(document: WebDocument | bytes, url: str, question: str) -> Observation:
    """Returns the best parts of a document of the web for a question, without menus and the like.

    Args:
        document: The document; bytes are one without a declared type.
        url: Its URL.
        question: The question.

    Raises:
        ValueError: It contains no text, or is of a kind that cannot be read.
    """
    document = WebDocument(document) if isinstance(document, bytes) else document
    page = text_of(document, url)
    chunks = best_chunks(question, chunks_of(page.text), CHUNKS)
    sources = (Source(page.title, chunk.text, url, span=(chunk.start, chunk.end)) for chunk in chunks)
    return Observation(tuple(sources), page.note, complete=not document.is_cut, may_keep=document.may_keep)
