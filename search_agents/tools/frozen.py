"""The web frozen in a corpus: searches, pages and screenshots, recorded once and replayed for any question.

The engine's corpus contains the tool results of particular runs. This one contains the responses of the web, so that
other questions and other models can use the same pages.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, cast

from PIL import Image

from search_agents.browsing.chromium import VIEWPORTS, View
from search_agents.corpus import Corpus, NotRecorded, decode_image, encode_image, timed
from search_agents.documents import WebDocument
from search_agents.records import Source, digest_of
from search_agents.tools.page import Screenshot
from search_agents.tools.web import MAX_BYTES, Fetch, ImageWebSearch, WebSearch

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

AT_ONCE = 4
"""Maximum number of concurrent requests while recording."""


async def frozen(
    corpus: Corpus,
    kind: str,
    key: str,
    make: Callable[[], Awaitable[T]],
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
) -> T:
    """Returns a result from a corpus, or a live one if the corpus is recording.

    Failures are recorded too, so that a replay fails in the same places; recording retries what has failed.

    Raises:
        NotRecorded: The result is not in the corpus, and the corpus is not recording.
        ValueError: The request failed, now or when it was recorded.
    """
    outcome = _recorded(corpus, kind, key)
    if outcome is None and not corpus.record:
        raise corpus.lacks(kind)
    if outcome is None or (corpus.record and "error" in outcome):

        async def attempt() -> dict[str, Any]:
            try:
                return {"value": encode(await make())}
            except NotRecorded:
                raise
            except (ValueError, OSError) as error:
                return {"error": str(error) or type(error).__name__}

        made, ms = await timed(attempt)
        outcome = _recorded(corpus, kind, key)
        if outcome is None or "error" in outcome:  # otherwise another run was first, and both use its result
            outcome = made
            corpus.write(kind, key, made, ms)
    if "error" in outcome:
        raise ValueError(str(outcome["error"]))
    try:
        return decode(outcome["value"])
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{corpus.path(kind, key)}: not a recorded result: {error}") from error


def _recorded(corpus: Corpus, kind: str, key: str) -> dict[str, Any] | None:
    content = corpus.read(kind, key)
    if content is None:
        return None
    outcome = content["result"]
    if not isinstance(outcome, dict) or not outcome.keys() & {"value", "error"}:
        raise ValueError(f"{corpus.path(kind, key)}: not a recorded result: neither a value nor an error")
    return outcome


def frozen_search(corpus: Corpus, engine: str, search: WebSearch | None) -> WebSearch:
    """Returns a search that is recorded in or replayed from a corpus.

    Args:
        corpus: The corpus.
        engine: The engine's name, part of the key.
        search: The live search; needed for recording.
    """

    async def ask(query: str) -> list[Source]:
        make = partial(_needed(search, corpus, "search"), query)
        return await frozen(corpus, "search", f"{engine} {query}", make, _rows, _sources)

    return ask


def frozen_image_search(corpus: Corpus, engine: str, search: ImageWebSearch | None) -> ImageWebSearch:
    """Returns a search by image that is recorded in or replayed from a corpus; see `frozen_search`."""

    async def ask(image: Image.Image) -> list[Source]:
        make = partial(_needed(search, corpus, "image_search"), image)
        return await frozen(corpus, "image_search", f"{engine} {digest_of(image)}", make, _rows, _sources)

    return ask


def frozen_fetch(corpus: Corpus, fetch: Fetch | None) -> Fetch:
    """Returns a function that fetches pages via a corpus; without `fetch`, nothing can be recorded."""

    async def get(url: str, limit: int) -> WebDocument:
        make = partial(_needed(fetch, corpus, "page"), url, MAX_BYTES)
        document = await frozen(corpus, "page", url, make, _encoded, _document)
        if len(document.content) > limit:
            raise ValueError(f"{url[:200]} has more than {limit} bytes")
        return document

    return get


def frozen_screenshot(corpus: Corpus, screenshot: Screenshot | None) -> Screenshot:
    """Returns a function that takes screenshots via a corpus; without `screenshot`, none can be recorded."""

    async def take(url: str, view: View) -> Image.Image:
        make = partial(_needed(screenshot, corpus, "screenshot"), url, view)
        return await frozen(corpus, "screenshot", f"{view} {url}", make, encode_image, decode_image)

    return take


async def record_web(
    queries: Sequence[str], search: WebSearch, fetch: Fetch, screenshot: Screenshot | None, pages: int
) -> dict[str, Any]:
    """Sends queries and opens the first pages of each, so that the frozen functions record them.

    Args:
        queries: The queries; duplicates are sent once.
        search: The frozen search.
        fetch: The frozen fetch.
        screenshot: The frozen screenshot function, for both views of every page; `None` takes none.
        pages: Maximum number of pages per query.

    Returns:
        The numbers of searches, pages and screenshots now recorded, and the failures by kind and name.
    """
    slots = asyncio.Semaphore(AT_ONCE)
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}

    async def attempt(kind: str, name: str, make: Callable[[], Awaitable[T]]) -> T | None:
        async with slots:
            try:
                result = await make()
            except (ValueError, OSError) as error:
                failed[f"{kind} {name}"] = str(error)
                return None
        counts[kind] += 1
        return result

    unique = dict.fromkeys(queries)
    found = await asyncio.gather(*(attempt("search", query, partial(search, query)) for query in unique))
    urls = list(dict.fromkeys(source.url for sources in found for source in (sources or [])[:pages]))
    tasks: list[Awaitable[object]] = []
    for url in urls:
        tasks.append(attempt("page", url, partial(fetch, url, MAX_BYTES)))
        if screenshot is not None:
            tasks += [attempt("screenshot", f"{view} {url}", partial(screenshot, url, view)) for view in VIEWPORTS]
    await asyncio.gather(*tasks)
    kinds = ("search", "page", "screenshot")
    return {**{kind: counts[kind] for kind in kinds}, "failed": dict(sorted(failed.items()))}


def _needed(made: Function | None, corpus: Corpus, kind: str) -> Function:
    """Returns the live function, or one that raises `NotRecorded` if there is none."""
    if made is None:

        async def lacking(*arguments: object) -> Any:
            raise corpus.lacks(kind)

        return cast(Function, lacking)
    return made


def _encoded(document: WebDocument) -> dict[str, Any]:
    return {**asdict(document), "content": base64.b64encode(document.content).decode()}


def _document(value: Any) -> WebDocument:
    """Returns a recorded document; older recordings are its content alone."""
    known = {"content": value} if isinstance(value, str) else dict(value)
    return WebDocument(**{**known, "content": base64.b64decode(known["content"])})


def _rows(sources: list[Source]) -> list[dict[str, Any]]:
    return [asdict(source) for source in sources]


def _sources(rows: Any) -> list[Source]:
    return [Source(row["title"], row["text"], row["url"]) for row in rows]
