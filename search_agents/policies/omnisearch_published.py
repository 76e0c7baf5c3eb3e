"""OmniSearch as its published code runs it: replies are read literally, and messages have the published order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

from PIL import Image

from chat_models.messages import Message, image_part, text_part
from chat_models.turns import turn_of
from search_agents.policies.kinds import Conditions, PolicyKind
from search_agents.policies.messages import SOLVE, given_images
from search_agents.policies.omnisearch import STEPS, OmniSearch
from search_agents.records import Call, Decision, Round
from search_agents.state import AgentRun
from search_agents.wordings import PublishedPrompts, Wordings

TOKENS = 4096
ACTIONS = 5
"""Maximum number of retrievals."""
IMAGES = 5
"""Maximum number of retrieved images that the planner sees at once."""
_FINAL = "Final Answer: "
_INPUT_IMAGE, _TEXT, _TEXT_TO_IMAGE = (
    "Image Retrieval with Input Image",
    "Text Retrieval",
    "Image Retrieval with Text Query",
)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


_WORDINGS: Mapping[str, str] = {
    "planner": f"{STEPS}\n\nQuestion: {{question}}\n",
    "retrieved_images": "Images that were found:\n",
    "retrieved_documents": f"{SOLVE}\n\nResults:\n",
    "input_image": "\nThe image:\n",
    "sub_question": "\nSub-question: {sub_question}",
    "solved": "The answer to the sub-question: ",
    "description": "It shows: {description}",
}
"""Our wordings of OmniSearch's prompts, under the names of the published ones."""
PUBLISHED = PublishedPrompts(
    "omnisearch",
    {
        "planner": frozenset({"question"}),
        **{name: frozenset() for name in ("retrieved_images", "retrieved_documents", "input_image", "solved")},
        "sub_question": frozenset({"sub_question"}),
        "description": frozenset({"description"}),
    },
    optional=frozenset({"planner_zh", "heuristic", "heuristic_zh"}),
)


class OmniSearchPublished:
    """The loop of OmniSearch's published code (Omnisearch_gpt).

    A reply is the final answer if "Final Answer" is anywhere in it; otherwise the first of the three retrievals that it
    names is made, with everything behind its name as the query. A reply with neither ends the run and is the answer, as
    is the reply after the fifth retrieval. Not followed are its quota of nine images for a whole data set, and the
    solver's answer as a tuple instead of a text.

    Args:
        wordings: The published prompts; `None` for ours.
    """

    name = "omnisearch"
    rounds = ACTIONS + 1

    def __init__(self, wordings: Wordings | None = None) -> None:
        self._wordings = wordings or _WORDINGS
        self._messages: list[Message] = []
        self._reply = ""
        self._turn: Message = {}
        self._last = Round(0)

    async def decide(self, run: AgentRun) -> Decision:
        """Adds what was retrieved and asks for the next step."""
        run.verbatim = True
        if not self._messages:
            template = self._wordings.get("planner_zh", "") if is_chinese(run.question) else ""
            template = template or self._wordings["planner"]
            self._messages = [await _message(template.replace("{question}", run.question), *given_images(run))]
        else:
            self._messages += [self._turn, await self._retrieved(run)]
        reply = await run.ask("plan", self._messages, max_tokens=TOKENS)
        self._reply, self._turn = reply.text, turn_of(reply)
        self._last = run.rounds[-1]
        if len(run.rounds) > ACTIONS:
            return Decision(answer=self._reply)
        if "Final Answer" in self._reply:
            return Decision(answer=self._reply.split(_FINAL)[-1])
        calls = _calls(run, self._reply)
        return Decision(self._reply[:2000], calls) if calls else Decision(answer=self._reply)

    async def conclude(self, run: AgentRun) -> str | None:
        """Returns the last reply."""
        return self._reply or None

    async def _retrieved(self, run: AgentRun) -> Message:
        """Returns the message with what was retrieved: images with descriptions, or the solver's answer from texts."""
        words, calls = self._wordings, self._last.calls
        shown: list[list[str | Image.Image]] = []
        for record in calls:
            if record.call.tool == "find_images":
                images = list(record.observation.images.values())[:1]  # the published code takes the first result
                titles = record.observation.text.splitlines()[:1]
                shown += [[*images, words["description"].replace("{description}", title)] for title in titles]
            elif record.call.tool in ("image_search", "web_image_search"):
                sources = record.observation.sources[:IMAGES]
                shown += [[words["description"].replace("{description}", source.title)] for source in sources]
        if shown:
            return await _message(words["retrieved_images"], *(part for one in shown[:IMAGES] for part in one))
        sub_question = self._reply.split("<Sub-Question>\n")[-1].split("\n")[0]
        asked = await _message(
            words["retrieved_documents"],
            *(source.title + source.text for record in calls for source in record.observation.sources),
            words["input_image"],
            *given_images(run),
            words["sub_question"].replace("{sub_question}", sub_question),
        )
        return await _message(words["solved"], (await run.ask("solve", [asked], max_tokens=TOKENS)).text)


def is_chinese(text: str) -> bool:
    """Returns whether a question is Chinese."""
    return _CHINESE.search(text) is not None


async def _message(*parts: str | Image.Image) -> Message:
    """Returns a user message with these parts."""
    content = await asyncio.to_thread(lambda: [text_part(p) if isinstance(p, str) else image_part(p) for p in parts])
    return {"role": "user", "content": content}


def _calls(run: AgentRun, reply: str) -> tuple[Call, ...]:
    """Returns the calls of the first retrieval that a reply names; none if it names none."""
    if _INPUT_IMAGE in reply:
        names = ("image_search", "web_image_search") if run.images else ()
        return tuple(Call(name, {}) for name in names if name in run.tools)
    if _TEXT in reply:
        return (Call(run.search_tool, {"queries": [_query(reply, _TEXT) or run.question[:1000]], "limit": 5}),)
    if _TEXT_TO_IMAGE in reply and "find_images" in run.tools:
        return (Call("find_images", {"query": _query(reply, _TEXT_TO_IMAGE) or run.question[:1000]}),)
    return ()


def _query(reply: str, retrieval: str) -> str:
    r"""Returns everything behind the name of a retrieval, without colons, quotation marks and closing brackets.

    Example:
        >>> _query('<Search>\nText Retrieval: "Niger capital">\nI wait.', "Text Retrieval")
        'Niger capital I wait.'
    """
    text = reply.split(retrieval)[-1]
    for mark in (":", '"', ">"):
        text = text.replace(mark, "")
    return " ".join(text.split())[:1000]


def _make(given: Conditions) -> OmniSearch | OmniSearchPublished:
    literal = given.official or given.wordings is not None
    return OmniSearchPublished(given.wordings) if literal else OmniSearch()


OMNISEARCH = PolicyKind(_make, PUBLISHED)
