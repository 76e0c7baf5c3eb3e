"""The tool that opens a page: an article of the index, or a web page, cut to what fits the question."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from pydantic import AliasChoices, BaseModel, Field

from agents.state import AgentRun, Observation
from agents.tool import Tool

Opener = Callable[[str, str], Awaitable[Observation | None]]
"""Takes a page's name and a question; returns the parts that fit it, or `None` if the page is not its own."""


class PageArguments(BaseModel):
    """A page and what to look for on it."""

    page: str = Field(
        min_length=1,
        max_length=2000,
        validation_alias=AliasChoices("page", "url", "title"),
        description="Title or id of an article, a URL, or the number of a result, such as [3]",
    )
    question: str = Field(default="", max_length=1000, description="What to look for; by default the whole question")


def open_page(openers: Sequence[Opener]) -> Tool:
    """Returns the tool; the first opener that knows a page opens it."""

    async def run(arguments: PageArguments, run: AgentRun) -> Observation:
        page = _target(arguments.page, run)
        for opener in openers:
            seen = await opener(page, arguments.question or run.question)
            if seen is not None:
                return seen
        raise ValueError(f"there is no page {page[:200]!r}; search for it first")

    return Tool(
        "open_page",
        "Opens an article or a web page and returns the parts that fit the question.",
        PageArguments,
        run,
        lambda arguments, run: [_target(arguments.page, run), arguments.question or run.question],
    )


def _target(page: str, run: AgentRun) -> str:
    number = re.fullmatch(r"\[?(\d{1,6})\]?", page.strip())
    if number is None:
        return page.strip()
    if not 1 <= int(number[1]) <= len(run.sources):
        raise ValueError(f"there is no result [{number[1]}]; there are {len(run.sources)}")
    return run.sources[int(number[1]) - 1].url
