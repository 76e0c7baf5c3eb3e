"""The settings (a) to (d) of MMSearch-Plus (its section 3): without search, image search, text search, full rollout."""

from __future__ import annotations

from collections.abc import Sequence

from search_agents.answers import plain_answer
from search_agents.policies.kinds import PolicyKind
from search_agents.policies.messages import answered, given_images, question_message, system
from search_agents.policies.mmsearch_plus import PUBLISHED, MMSearchPlus, related_results
from search_agents.records import IMAGE, Call, Decision
from search_agents.state import AgentRun
from search_agents.wordings import Wordings

_TEXT = ("text_search", "web_search", "open_page")
_IMAGE = ("image_search", "web_image_search")


_PLAIN = (
    "Answer the question about the image as briefly as possible: <answer>...</answer>. If you do not know it: "
    "<answer>unknown</answer>"
)


class WithoutSearch:
    """Setting (a): the model answers from the question and its images alone; the paper publishes no prompt of it."""

    name = "mmsearch-plus-none"
    rounds = 2

    def __init__(self) -> None:
        self._known = ""

    async def decide(self, run: AgentRun) -> Decision:
        """Asks for the answer."""
        run.boxes = ()
        messages = [system(_PLAIN), await question_message(run, self._known)]
        return answered(plain_answer(await run.ask("answer", messages)) or "")

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns `None`."""
        return None


class ImageSearched(WithoutSearch):
    """Setting (b): the model also gets the results of an image search for each of the question's images."""

    name = "mmsearch-plus-image"

    async def decide(self, run: AgentRun) -> Decision:
        """Searches for the images, then asks for the answer."""
        if len(run.rounds) == 1 and run.images:
            names = [IMAGE if n == 1 else f"{IMAGE}_{n}" for n in range(1, len(given_images(run)) + 1)]
            tools = [tool for tool in _IMAGE if tool in run.tools]
            return Decision("Search by image.", tuple(Call(tool, {"image": name}) for name in names for tool in tools))
        if len(run.rounds) > 1:
            self._known = "\n\n" + "\n".join(related_results(run, record) for record in run.rounds[0].calls)
        return await super().decide(run)


class TextSearched(MMSearchPlus):
    """Setting (c): the model searches by text, in up to 20 rounds."""

    name = "mmsearch-plus-text"
    offered: Sequence[str] = _TEXT
    marks = False

    def __init__(self, wordings: Wordings | None = None) -> None:
        super().__init__("", wordings)


class Rollout(TextSearched):
    """Setting (d): the model searches by text and by image, in up to 20 rounds, without marked regions."""

    name = "mmsearch-plus-rollout"
    offered = (*_IMAGE, *_TEXT)


WITHOUT_SEARCH = PolicyKind(lambda _: WithoutSearch())
IMAGE_SEARCHED = PolicyKind(lambda _: ImageSearched())
TEXT_SEARCHED = PolicyKind(lambda given: TextSearched(given.wordings), PUBLISHED)
ROLLOUT = PolicyKind(lambda given: Rollout(given.wordings), PUBLISHED)
