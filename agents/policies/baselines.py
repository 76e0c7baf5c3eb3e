"""The heuristic baselines of Dyn-VQA: fixed searches, then one answer from the results, without planning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agents import prompts
from agents.answers import plain_answer
from agents.parsing import without_thoughts
from agents.policies.messages import answered, images_of, question_message, system, user
from agents.state import IMAGE, AgentRun, Call, Decision
from llm.messages import with_images


class _Heuristic(ABC):
    """A baseline of Dyn-VQA (arXiv 2411.02937): one or two rounds of calls, then the answer from all results."""

    name = ""
    rounds = 3

    async def decide(self, run: AgentRun) -> Decision:
        """Makes the fixed searches, then answers."""
        calls = await self._next(run)
        if calls:
            return Decision("Search.", tuple(calls))
        return await self._answer(run)

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from the results."""
        return (await self._answer(run)).answer

    @abstractmethod
    async def _next(self, run: AgentRun) -> Sequence[Call]:
        """Returns the calls of the current round; no calls end the search."""

    async def _answer(self, run: AgentRun) -> Decision:
        calls = [record for one in run.rounds for record in one.calls]
        found = run.results(calls) or "(nothing)"
        message = with_images(await question_message(run, f"\n\nResults:\n{found}"), images_of(calls))
        reply = await run.ask("answer", [system(prompts.FROM_RESULTS), message], max_tokens=256)
        return answered(plain_answer(reply) or "")


class ImageBaseline(_Heuristic):
    """Retrieves images similar to the input image, and answers from their captions (section 4.1, single-hop).

    A caption is the title and the best sections of a result of the image search.
    """

    name = "dynvqa-image"

    async def _next(self, run: AgentRun) -> Sequence[Call]:
        return _image_search(run) if len(run.rounds) == 1 else ()


class WebBaseline(_Heuristic):
    """Searches for the question verbatim, and answers from the results (section 4.1, single-hop)."""

    name = "dynvqa-web"

    async def _next(self, run: AgentRun) -> Sequence[Call]:
        return _text_search(run, run.question) if len(run.rounds) == 1 else ()


class ImageWebBaseline(_Heuristic):
    """Retrieves images, then searches for the first one's caption plus the question (section 4.1, two-hop).

    The caption is the title of the first result.
    """

    name = "dynvqa-image-web"

    async def _next(self, run: AgentRun) -> Sequence[Call]:
        if len(run.rounds) == 1 and (calls := _image_search(run)):
            return calls
        if len(run.rounds) <= 2 and not any(_searches_text(record.call) for record in run.rounds[0].calls):
            caption = run.sources[0].title if run.sources else ""
            return _text_search(run, f"{caption} {run.question}".strip())
        return ()


class CaptionWebBaseline(_Heuristic):
    """Lets the model caption the image, then searches for the caption plus the question (section 4.1, two-hop)."""

    name = "dynvqa-caption-web"

    async def _next(self, run: AgentRun) -> Sequence[Call]:
        if len(run.rounds) > 1:
            return ()
        caption = ""
        if IMAGE in run.images:
            messages = [system(prompts.PLAIN_CAPTION), user("Caption:", [run.images[IMAGE]])]
            caption = without_thoughts((await run.ask("caption", messages, max_tokens=64)).text)
        return _text_search(run, f"{caption} {run.question}".strip())


class GoldenBaseline(_Heuristic):
    """Searches for the data set's golden query, as an estimated upper bound (section 4.1).

    Args:
        query: The question with the image replaced by the entity's name.
    """

    name = "dynvqa-golden"

    def __init__(self, query: str) -> None:
        self._query = query

    async def _next(self, run: AgentRun) -> Sequence[Call]:
        return _text_search(run, self._query) if len(run.rounds) == 1 else ()


def _image_search(run: AgentRun) -> tuple[Call, ...]:
    names = ("image_search", "web_image_search")
    return tuple(Call(name, {}) for name in names if name in run.tools) if run.images else ()


def _text_search(run: AgentRun, query: str) -> tuple[Call, ...]:
    return (Call(run.search_tool, {"queries": [query[:1000]]}),)


def _searches_text(call: Call) -> bool:
    return call.tool in ("text_search", "web_search")
