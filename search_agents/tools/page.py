"""The tool that opens a page, an article of the index or a web page, and returns the best parts for the question."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from PIL import Image
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from search_agents.browsing.chromium import View
from search_agents.browsing.slimming import slices, slim
from search_agents.records import Observation
from search_agents.state import AgentRun, Tool

Opener = Callable[[str, str], Awaitable[Observation | None]]
"""Takes a page's name and a question; returns the best parts, or `None` if it does not know the page."""
Screenshot = Callable[[str, View], Awaitable[Image.Image]]
"""Takes the URL of a web page and how much of it to show; raises `ValueError` or `OSError`."""


class PageArguments(BaseModel):
    """A page and what to look for on it."""

    page: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)] = Field(
        min_length=1,
        max_length=2000,
        validation_alias=AliasChoices("page", "url", "title"),
        description="Title or id of an article, a URL, or the number of a result, such as [3]",
    )
    question: str = Field(default="", max_length=1000, description="What to look for; by default the whole question")


class PageViewArguments(PageArguments):
    """The same, with how much of a web page to show as images."""

    screenshot: Literal["none", "top", "full"] = Field(
        default="none", description="Shows a web page too: its first screen, or all of it in up to 10 images"
    )


def open_page(
    openers: Sequence[Opener], screenshot: Screenshot | None = None, changes: Callable[[], list[int]] = list
) -> Tool:
    """Returns the tool; the first opener that knows a page opens it.

    Args:
        openers: Functions that open pages as text.
        screenshot: Shows web pages as images; without it, calls cannot request any.
        changes: Returns part of the cache key, which differs after pages have changed.
    """

    async def run(arguments: PageArguments, run: AgentRun) -> Observation:
        page = _target(arguments.page, run)
        text = _opened(openers, page, arguments.question or run.question)
        view = arguments.screenshot if isinstance(arguments, PageViewArguments) else "none"
        if screenshot is None or view == "none":
            return await text
        seen, images = await asyncio.gather(text, _images(screenshot, page, view), return_exceptions=True)
        for outcome in (seen, images):
            if isinstance(outcome, BaseException) and not isinstance(outcome, ValueError | OSError):
                raise outcome
        if isinstance(images, BaseException):
            if isinstance(seen, BaseException):
                raise seen
            return replace(seen, text=f"{seen.text}\nNo screenshot: {images}".strip(), complete=False)
        if isinstance(seen, BaseException):  # such as a page without text, of which a screenshot shows more
            return Observation(text=str(seen), images=images)
        return replace(seen, images=images)

    return Tool(
        "open_page",
        "Opens an article or a web page and returns the parts that fit the question.",
        PageArguments if screenshot is None else PageViewArguments,
        run,
        lambda arguments, run: [_target(arguments.page, run), arguments.question or run.question, *changes()],
    )


async def _opened(openers: Sequence[Opener], page: str, question: str) -> Observation:
    for opener in openers:
        seen = await opener(page, question)
        if seen is not None:
            return seen
    raise ValueError(f"there is no page {page[:200]!r}; search for it first")


async def _images(screenshot: Screenshot, page: str, view: View) -> Mapping[str, Image.Image]:
    if not page.lower().startswith(("http://", "https://")):
        raise ValueError(f"{page[:200]!r} is not a web page")
    shot = await screenshot(page, view)
    name = f"page_{hashlib.sha256(page.encode()).hexdigest()[:6]}"
    if view == "top":
        return {f"{name}_top": shot}
    parts = slices(await asyncio.to_thread(slim, shot))
    return {f"{name}_{number}": part for number, part in enumerate(parts, start=1)}


def _target(page: str, run: AgentRun) -> str:
    number = re.fullmatch(r"\[?(\d{1,6})\]?", page.strip())
    if number is None:
        return page.strip()
    if not 1 <= int(number[1]) <= len(run.sources):
        raise ValueError(f"there is no result [{number[1]}]; there are {len(run.sources)}")
    return run.sources[int(number[1]) - 1].url
