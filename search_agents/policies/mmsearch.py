"""MMSearch-Engine: requery, rerank eight results, summarize the chosen page, as a fixed sequence."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from search_agents.policies.kinds import PolicyKind
from search_agents.policies.messages import images_of
from search_agents.policies.mmsearch_stages import PUBLISHED, RESULTS, SeenWebsite, Stages, named, official_opened
from search_agents.records import IMAGE, Call, Decision, Round, heading_of
from search_agents.state import AgentRun
from search_agents.wordings import Value, Wordings

QUERY = "Query: "
"""What precedes the query in the thought of the round that searches for it."""


class MMSearch:
    """The pipeline of MMSearch-Engine (arXiv 2409.12959), section 2.1 and tables 6 to 8.

    Image search if there is an image, requery, text search for `RESULTS` websites, choice of one, answer from its
    content. Websites are numbered from 1. A choice in another format than the published one counts as malformed; if it
    still names a website, that one is opened, otherwise the first. If `open_page` takes screenshots, the model sees
    them too: the first screen of each website when choosing, the whole chosen website when answering.

    Args:
        wordings: The published prompts; `None` for ours.
        official: Whether to read replies as the published code does; see `Stages`.
        image_search: The published screenshot of an image search's results; without it, the image is searched for.
    """

    name = "mmsearch"
    rounds = 5

    def __init__(
        self, wordings: Wordings | None = None, *, official: bool = False, image_search: Sequence[Image.Image] = ()
    ) -> None:
        self._stages, self._given = Stages(wordings, official), tuple(image_search)
        self._images: Round | None = None
        self._search: Round | None = None
        self._tops: Round | None = None
        self._page: Round | None = None
        self._asked = ""
        self._chosen = 0

    async def decide(self, run: AgentRun) -> Decision:
        """Takes the next step."""
        current = run.rounds[-1]
        if self._images is None and self._search is None and IMAGE in run.images and not self._given:
            self._images = current
            tools = [name for name in ("image_search", "web_image_search") if name in run.tools]
            return Decision("Search by image.", tuple(Call(name, {}) for name in tools))
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
        return await self._stages.summarize(run, self._website(run, self._chosen, self._page), self._seen(run))

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from all results."""
        calls = [record for one in run.rounds for record in one.calls]
        website = SeenWebsite("all results", "", run.results(calls))
        return (await self._stages.summarize(run, website, self._seen(run))).answer

    async def _requery(self, run: AgentRun) -> Decision:
        scored, query = await self._stages.requery(run, self._seen(run))
        self._asked = query or run.question[:1000]
        call = Call(run.search_tool, {"queries": [self._asked], "limit": RESULTS})
        return Decision(f"{QUERY}{scored}", (call,), problem="" if query else "no query; searched for the question")

    async def _rerank(self, run: AgentRun, found: Sequence[int]) -> Decision:
        reply, choice = await self._stages.rerank(
            run, [self._website(run, number, self._tops) for number in found], self._seen(run)
        )
        if self._stages.official:
            opened = official_opened(reply, len(found))
        else:
            opened = named(reply, len(found)) if choice is None else choice
        self._chosen = found[opened]
        problem = "" if choice is not None else f"no website of 1 to {len(found)} was chosen: {reply[:100]!r}"
        arguments = {"page": run.sources[self._chosen - 1].url, "question": self._asked}
        arguments |= {"screenshot": "full"} if _screenshots(run, [self._chosen]) else {}
        return Decision(f"Website {opened + 1}", (Call("open_page", arguments),), problem=problem)

    def _website(self, run: AgentRun, number: int, shown: Round | None) -> SeenWebsite:
        """Returns a result as the model sees it, with what the calls of a round show of it; ours with its number."""
        source = run.sources[number - 1]
        calls = [
            record
            for record in ([] if shown is None else shown.calls)
            if isinstance(record.call.arguments, dict) and record.call.arguments.get("page") == source.url
        ]
        cites = self._stages.wordings is None
        texts = [one.text for record in calls for one in record.observation.sources]
        return SeenWebsite(
            f"[{number}] {heading_of(source)} ({source.url})" if cites else heading_of(source),
            source.text,
            run.results(calls) if cites else "\n".join(texts),
            tuple(images_of(calls)),
        )

    def _seen(self, run: AgentRun) -> Value:
        """Returns the result of the image search: the given screenshot, or the results as text."""
        return self._given or (run.results(self._images.calls) if self._images is not None else "")


class MMSearchRerank:
    """MMSearch's rerank task (section 2.3): the choice of one of eight given websites.

    The answer is the model's reply; `choice` is the position from 0, `None` if it chose none.
    """

    name = "mmsearch-rerank"
    rounds = 1

    def __init__(
        self, websites: Sequence[SeenWebsite], image_search: Sequence[Image.Image] = (), stages: Stages | None = None
    ) -> None:
        self._websites, self._seen, self._stages = list(websites), tuple(image_search), stages or Stages()
        self.choice: int | None = None

    async def decide(self, run: AgentRun) -> Decision:
        """Asks for the choice."""
        reply, self.choice = await self._stages.rerank(run, self._websites, self._seen)
        run.verbatim = True
        problem = "" if self.choice is not None else f"no website of 1 to {len(self._websites)} was chosen"
        return Decision(answer=reply, problem=problem)

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns `None`."""
        return None


class MMSearchSummarize:
    """MMSearch's summarization task (section 2.3): the answer from one given website."""

    name = "mmsearch-summarize"
    rounds = 1

    def __init__(
        self, website: SeenWebsite, image_search: Sequence[Image.Image] = (), stages: Stages | None = None
    ) -> None:
        self._website, self._seen, self._stages = website, tuple(image_search), stages or Stages()

    async def decide(self, run: AgentRun) -> Decision:
        """Asks for the answer."""
        return await self._stages.summarize(run, self._website, self._seen)

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns `None`."""
        return None


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


MMSEARCH = PolicyKind(
    lambda given: MMSearch(given.wordings, official=given.official, image_search=given.image_search), PUBLISHED
)
