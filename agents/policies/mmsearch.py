"""MMSearch-Engine: requery, rerank eight results, summarize the chosen page. A fixed sequence, no loop."""

from __future__ import annotations

import re

from agents import prompts
from agents.parsing import is_abstention, without_thoughts
from agents.policies.messages import answered, question_message, system
from agents.state import AgentRun, Call, Decision

RESULTS = 8
"""K of the paper."""
_WEBSITE = re.compile(r"<\s*website\s*(\d{1,4})\s*>", re.IGNORECASE)


class MMSearch:
    """The pipeline of MMSearch-Engine (arXiv 2409.12959), section 2.1 and tables 6 to 8, without screenshots.

    Image search, requery, text search for `RESULTS` websites, choice of one, answer from its content. Websites are
    numbered from 1; a choice that names none of them is counted as malformed, and the first one is opened.
    """

    name = "mmsearch"
    rounds = 4

    def __init__(self) -> None:
        self._chosen = ""

    async def decide(self, run: AgentRun) -> Decision:
        """Takes the next of the four steps."""
        step = len(run.rounds)
        if step == 1:
            return Decision("Search by image.", (Call("image_search", {}),))
        images = f"\n\nImage search:\n{run.results(run.rounds[0].calls)}"
        if step == 2:
            messages = [system(prompts.REQUERY), await question_message(run, f"{images}\n\nQuery:")]
            query = _line((await run.ask("requery", messages, max_tokens=128)).text) or run.question
            tool = "web_search" if "web_search" in run.tools else "text_search"
            return Decision(f"Query: {query}", (Call(tool, {"queries": [query[:1000]], "limit": RESULTS}),))
        found = run.rounds[1].calls[0].numbers[:RESULTS]
        if step == 3:
            if not found:
                return Decision("No website was found.", abstains=True)
            websites = prompts.numbered([run.quoted(number) for number in found], "Website")
            messages = [system(prompts.RERANK), await question_message(run, f"{images}\n\n{websites}")]
            reply = await run.ask("rerank", messages, max_tokens=64)
            choice = chosen(reply.text, len(found))
            problem = "" if choice is not None else f"no website of 1 to {len(found)} was chosen: {reply.text[:100]!r}"
            number = found[choice or 0]
            self._chosen, page = run.quoted(number), run.sources[number - 1]
            return Decision(f"Website {(choice or 0) + 1}", (Call("open_page", {"page": page.url}),), problem=problem)
        opened = run.rounds[2].calls
        return await self._answer(run, f"{images}\n\nWebsite:\n{self._chosen}\n\n{run.results(opened)}")

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from whatever was found."""
        calls = [record for one in run.rounds for record in one.calls]
        return (await self._answer(run, f"\n\n{run.results(calls)}")).answer

    async def _answer(self, run: AgentRun, known: str) -> Decision:
        messages = [system(prompts.SUMMARIZE), await question_message(run, known)]
        text = without_thoughts((await run.ask("summarize", messages, max_tokens=256)).text)
        return Decision(abstains=True) if is_abstention(text) else answered(text)


def chosen(text: str, websites: int) -> int | None:
    """Returns the position from 0 of the website that a reply chooses, `None` if it is none of them.

    Example:
        >>> chosen("<Website 1>", 8), chosen("<Website 0>", 8), chosen("<Website 9>", 8)
        (0, None, None)
    """
    found = _WEBSITE.search(without_thoughts(text))
    number = int(found[1]) if found else 0
    return number - 1 if 1 <= number <= websites else None


def _line(text: str) -> str:
    """Returns the first line of a reply with anything in it, without "Query:" and quotes."""
    lines = [line.strip() for line in without_thoughts(text).splitlines() if line.strip()]
    return re.sub(r"^query\s*:\s*", "", lines[0], flags=re.IGNORECASE).strip("\"' ") if lines else ""
