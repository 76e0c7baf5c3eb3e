"""MMSearch-Engine: requery, rerank eight results, summarize the chosen page, as a fixed sequence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PIL import Image

from agents import prompts
from agents.answers import plain_answer
from agents.parsing import json_object, without_thoughts
from agents.policies.messages import answered, images_of, question_message, system
from agents.state import IMAGE, AgentRun, Call, Decision, Round
from llm.messages import with_images

RESULTS = 8
"""The paper's K."""
_WORDS = 100
"""Maximum number of words in a query, as in the published code."""
_WEBSITE = re.compile(r"<\s*website\s*(?:index)?[\s:#_]*(\d{1,4})\s*>", re.IGNORECASE)
_BARE = re.compile(r"website\s*(?:index)?[\s:#_*\"']*(\d{1,4})\b|\A\W*(\d{1,4})\W*\Z", re.IGNORECASE)
"""A choice without angle brackets."""
_QUERY_LABEL = re.compile(
    r"^(?:\d+[.)]\s*)?(?:[-*\"'`]+\s*)?(?:(?:here is |here's )?(?:the |a |my )?)(?:search |suggested |best )?query"
    r"[^:\uff1a]{0,40}[:\uff1a]\s*",
    re.IGNORECASE,
)


class MMSearch:
    """The pipeline of MMSearch-Engine (arXiv 2409.12959), section 2.1 and tables 6 to 8.

    Image search if there is an image, requery, text search for `RESULTS` websites, choice of one, answer from its
    content. Websites are numbered from 1. A choice in another format than the published one counts as malformed; if it
    still names a website, that one is opened, otherwise the first. If `open_page` takes screenshots, the model sees
    them too: the first screen of each website when choosing, the whole chosen website when answering.
    """

    name = "mmsearch"
    rounds = 5

    def __init__(self) -> None:
        self._images: Round | None = None
        self._search: Round | None = None
        self._tops: Round | None = None
        self._page: Round | None = None
        self._chosen = ""

    async def decide(self, run: AgentRun) -> Decision:
        """Takes the next step."""
        current = run.rounds[-1]
        if self._images is None and self._search is None and IMAGE in run.images:
            self._images = current
            return Decision("Search by image.", (Call("image_search", {}),))
        if self._search is None:
            self._search = current
            return await self._requery(run)
        found = self._search.calls[0].numbers[:RESULTS]
        if not found:
            return Decision("No website was found.", abstains=True)
        if self._tops is None:
            self._tops = current
            if calls := _screenshots(run, found):
                return Decision("Look at the websites.", calls)
        if self._page is None:
            self._page = current
            return await self._rerank(run, found)
        website = f"Website:\n{self._chosen}\n\n{run.results(self._page.calls)}"
        return await self._answer(run, website, images_of(self._page.calls))

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from all results."""
        calls = [record for one in run.rounds for record in one.calls]
        return (await self._answer(run, run.results(calls), ())).answer

    async def _requery(self, run: AgentRun) -> Decision:
        messages = [system(prompts.REQUERY), await question_message(run, f"{self._seen(run)}\n\nQuery:")]
        query = _line((await run.ask("requery", messages, max_tokens=128)).text)
        call = Call(run.search_tool, {"queries": [query or run.question[:1000]], "limit": RESULTS})
        return Decision(f"Query: {query}", (call,), problem="" if query else "no query; searched for the question")

    async def _rerank(self, run: AgentRun, found: Sequence[int]) -> Decision:
        websites = [run.quoted(number) for number in found]
        tops = images_of(self._tops.calls) if self._tops is not None else ()
        reply, choice = await rerank(run, websites, tops, self._seen(run))
        opened = choice if choice is not None else named(reply, len(found))
        number = found[opened]
        self._chosen, page = run.quoted(number), run.sources[number - 1]
        problem = "" if choice is not None else f"no website of 1 to {len(found)} was chosen: {reply[:100]!r}"
        arguments = {"page": page.url} | ({"screenshot": "full"} if _screenshots(run, [number]) else {})
        return Decision(f"Website {opened + 1}", (Call("open_page", arguments),), problem=problem)

    async def _answer(self, run: AgentRun, known: str, images: Sequence[Image.Image]) -> Decision:
        return answered(await summarize(run, f"{self._seen(run)}\n\n{known}", images))

    def _seen(self, run: AgentRun) -> str:
        """Returns the results of the image search as text."""
        return f"\n\nImage search:\n{run.results(self._images.calls)}" if self._images is not None else ""


class MMSearchRerank:
    """MMSearch's rerank task (section 2.3): the choice of one of eight given websites.

    The answer is the model's reply, which `chosen` parses.

    Args:
        websites: Their titles and snippets.
        screenshots: Their first screens.
        image_search: A screenshot of the results of an image search.
    """

    name = "mmsearch-rerank"
    rounds = 1

    def __init__(
        self, websites: Sequence[str], screenshots: Sequence[Image.Image] = (), image_search: Sequence[Image.Image] = ()
    ) -> None:
        self._websites, self._images = list(websites), [*image_search, *screenshots]

    async def decide(self, run: AgentRun) -> Decision:
        """Asks for the choice."""
        reply, choice = await rerank(run, self._websites, self._images, "")
        problem = "" if choice is not None else f"no website of 1 to {len(self._websites)} was chosen"
        return Decision(answer=reply or "(nothing)", problem=problem)

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns `None`."""
        return None


class MMSearchSummarize:
    """MMSearch's summarization task (section 2.3): the answer from one given website.

    Args:
        website: Its title, snippet and text.
        slices: Its slimmed screenshot in slices.
        image_search: A screenshot of the results of an image search.
    """

    name = "mmsearch-summarize"
    rounds = 1

    def __init__(
        self, website: str, slices: Sequence[Image.Image] = (), image_search: Sequence[Image.Image] = ()
    ) -> None:
        self._website, self._images = website, [*image_search, *slices]

    async def decide(self, run: AgentRun) -> Decision:
        """Asks for the answer."""
        return answered(await summarize(run, f"\n\nWebsite:\n{self._website}", self._images))

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns `None`."""
        return None


async def rerank(
    run: AgentRun, websites: Sequence[str], images: Sequence[Image.Image], known: str
) -> tuple[str, int | None]:
    """Asks which website helps most; returns the reply and the chosen position from 0, `None` if there is none."""
    shown = prompts.numbered(websites, "Website")
    messages = [system(prompts.RERANK), with_images(await question_message(run, f"{known}\n\n{shown}"), images)]
    reply = (await run.ask("rerank", messages, max_tokens=64)).text
    return reply, chosen(reply, len(websites))


async def summarize(run: AgentRun, known: str, images: Sequence[Image.Image]) -> str:
    """Asks for the answer from a website; returns it, or "" if there is none."""
    messages = [system(prompts.SUMMARIZE), with_images(await question_message(run, known), images)]
    return plain_answer(await run.ask("summarize", messages, max_tokens=256)) or ""


def chosen(text: str, websites: int) -> int | None:
    """Returns the position from 0 of the website that a reply chooses, or `None` if it chooses none of them.

    Example:
        >>> chosen("<Website 1>", 8), chosen("<Website 0>", 8), chosen("<Website 9>", 8)
        (0, None, None)
    """
    found = _WEBSITE.search(without_thoughts(text))
    number = int(found[1]) if found else 0
    return number - 1 if 1 <= number <= websites else None


def named(text: str, websites: int) -> int:
    """Returns the position from 0 of the website that a reply names without brackets; 0 unless it names exactly one.

    Example:
        >>> named("Website 3 helps most.", 8), named("Website 3 or Website 4", 8), named("none", 8)
        (2, 0, 0)
    """
    numbers = {int(one or other) for one, other in _BARE.findall(without_thoughts(text))}
    number = numbers.pop() if len(numbers) == 1 else 1
    return number - 1 if 1 <= number <= websites else 0


def _screenshots(run: AgentRun, found: Sequence[int]) -> tuple[Call, ...]:
    """Returns the calls that show the first screens of websites; none if the tools take no screenshots."""
    opened = run.tools.get("open_page")
    if opened is None or "screenshot" not in opened.arguments.model_fields:
        return ()
    sources = [run.sources[number - 1] for number in found]
    return tuple(
        Call("open_page", {"page": source.url, "screenshot": "top"})
        for source in sources
        if not source.section  # only articles of the index have sections
    )


def _line(text: str) -> str:
    r"""Returns the query in a reply, at most 100 words: from a JSON object, a line "Query: …", or else the first line.

    Example:
        >>> _line("I look for the club first.\nQuery: FC Barcelona next match"), _line('{"query": "a b"}')
        ('FC Barcelona next match', 'a b')
    """
    plain = without_thoughts(text)
    value = json_object(plain) or {}
    lines = [line.strip() for line in plain.splitlines() if line.strip().strip("`") and not line.startswith("```")]
    named = [one for key, one in value.items() if "quer" in key.lower()]
    listed = [text for one in named for text in (one if isinstance(one, list) else [one]) if isinstance(text, str)]
    written = next(iter(listed), None)
    labeled = [line for line in lines if _QUERY_LABEL.match(line) and _query(line)]
    query = _query(written or next(iter(labeled), next((line for line in lines if _query(line)), "")))
    return " ".join(query.split()[:_WORDS])[:1000]


def _query(line: str) -> str:
    return _QUERY_LABEL.sub("", line).strip("\"'`* \u201c\u201d")
