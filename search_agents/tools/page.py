"""The tool that opens a page, an article of the index or a web page, and returns the best parts for the question.

Screenshots of whole pages are shortened: blank areas are narrowed, and the rest is cut into slices.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from PIL import Image
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field

from search_agents.browsing.chromium import View
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
    openers: Sequence[Opener], screenshot: Screenshot | None = None, changes: Callable[[], list[object]] = list
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


GAP = 16
"""Pixels of a blank area that remain, so that paragraphs and columns stay apart."""
EDGE = 32
"""Smallest gradient that does not count as blank: a step of 8 of 255 levels, as between white and the palest gray of
texts. The largest possible gradient is 1020."""
SLICE, SLICES = 512, 10

_Gray = np.ndarray[Any, np.dtype[np.int16]]


def slim(page: Image.Image) -> Image.Image:
    """Narrows the blank rows and columns of a page to `GAP` pixels, as in appendix B of MMSearch (arXiv 2409.12959).

    A row or column is blank if no Sobel gradient in it reaches `EDGE` in any color. The paper removes blank areas
    iteratively; here one pass suffices, because no blank row contains an edge of any column. All other pixels are kept
    unchanged. A page without edges is returned unchanged.
    """
    pixels = np.asarray(page.convert("RGB"))
    edges = np.zeros(pixels.shape[:2], dtype=bool)
    for channel in range(3):
        edges |= _gradient(pixels[..., channel].astype(np.int16)) >= EDGE
    if not edges.any():
        return page
    rows, columns = (np.flatnonzero(_kept(np.asarray(edges.any(axis)))) for axis in (1, 0))
    return Image.fromarray(pixels[np.ix_(rows, columns)])


def slices(page: Image.Image) -> list[Image.Image]:
    """Cuts a page, from the top, into at most `SLICES` images of `SLICE` rows; the last one may be shorter."""
    tops = range(0, min(page.height, SLICE * SLICES), SLICE)
    return [page.crop((0, top, page.width, min(top + SLICE, page.height))) for top in tops]


def _gradient(gray: _Gray) -> _Gray:
    """Returns the larger absolute value of the two Sobel gradients at every pixel, with the border pixels repeated."""
    padded = np.pad(gray, 1, mode="edge")
    rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    across = np.abs(rows[:, 2:] - rows[:, :-2])
    columns = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    down: _Gray = np.abs(columns[2:] - columns[:-2])
    return np.maximum(across, down)


def _kept(filled: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which rows (or columns) remain: all that are filled, and `GAP` of each blank run, half at each end."""
    kept = filled.copy()
    at = np.flatnonzero(filled)
    starts, ends = [0, *(at + 1)], [*at, len(filled)]
    for start, end in zip(starts, ends, strict=True):
        if end - start <= GAP:
            kept[start:end] = True
        else:
            kept[start : start + GAP // 2] = True
            kept[end - GAP // 2 : end] = True
    return kept
