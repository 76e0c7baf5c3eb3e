"""Vision Search Assistant: correlated captions of regions, then a graph of sub-questions, then an answer from both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from search_agents.answers import plain_answer
from search_agents.parsing import is_abstention, is_true, json_values, tagged, without_thoughts
from search_agents.policies.kinds import PolicyKind
from search_agents.policies.messages import SOLVE, answered, given_images, question_message, system, user
from search_agents.records import IMAGE, Call, CallRecord, Decision, Round
from search_agents.state import AgentRun
from search_agents.wordings import PublishedPrompts, Value, Wordings, fill

REGIONS = 6
"""Maximum number of regions that are captioned; further ones are ignored."""
TOKENS = 2000
"""Maximum length of a reply, as in the published code."""
CONTEXT = 3500
"""Maximum characters of all contexts of the answer, as in the published code."""
SUB_QUESTIONS = 4
"""Maximum number of sub-questions per update of the graph."""


_ITEM = re.compile(
    r"^[ \t]*(?:[-\u2022]|\*(?!\*)|\**(?:(?:q|(?:sub-?)?question)[ \t]*)?\(?\d{1,2}[.):\uff1a\u3001])[ \t*]*(\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
"""An item of a list."""
_PROGRAM_NODE = re.compile(r"add_node\([^)]{0,500}?node_content\s*=\s*([\"'])(.*?)\1", re.DOTALL)
"""A sub-question in a program of MindSearch's planner."""
_KEYS = {
    "sufficient": "sufficient", "issufficient": "sufficient", "enough": "sufficient",
    "questions": "questions", "subquestions": "questions", "queries": "questions",
}  # fmt: skip
"""Our names of the keys of an update."""
_ENOUGH = re.compile(
    r"\W*(?:yes\b|true\b|enough\b|sufficient\b|the knowledge (?:is sufficient|suffices))", re.IGNORECASE
)
"""The beginning of a verdict in plain text that the knowledge suffices."""


CAPTION = (
    "Describe what this part of an image shows, in one or two sentences, with everything that may help to answer the "
    "question: names, lettering, shapes, colors. Do not answer the question."
)
_CORRELATE = (
    "You see a part of an image, its description, and descriptions of the other parts. Write the description of this "
    "part again, corrected and completed by what the others suggest. Do not answer the question."
)
_PLAN = """\
You plan the searches that a question about an image needs. Below are descriptions of the image's regions, and the \
responses to the sub-questions asked so far. First judge whether they already answer the question. If not, write up \
to four further sub-questions, each about one region and complete in itself, with names instead of pronouns. If one \
follows up an earlier sub-question, "after" is the number of that one, else 0.

Reply with JSON only:
{"sufficient": true or false, "questions": [{"region": 1, "after": 0, "question": "..."}]}"""
_UPDATE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "sufficient": {"type": "boolean"},
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "region": {"type": "integer"},
                    "after": {"type": "integer"},
                    "question": {"type": "string"},
                },
                "required": ["region", "after", "question"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["sufficient", "questions"],
    "additionalProperties": False,
}
_KNOWLEDGE = (
    "Sum up what the responses below and the knowledge so far say about the question, in a few sentences, with the "
    "numbers of results that they cite, such as [2]. Do not add anything from memory."
)
_COLLABORATE = (
    "Answer the question about the image from the descriptions of its regions, the responses and the knowledge below, "
    "as briefly as possible. Keep the numbers of results that the responses cite, such as [2]. If they do not answer "
    "it: unknown"
)
PUBLISHED = PublishedPrompts(
    "vsa",
    {
        "caption": frozenset({"label", "text"}),
        "correlate": frozenset({"caption", "other_captions"}),
        "answer": frozenset({"text", "contexts"}),
    },
)


@dataclass(slots=True)
class _Node:
    """A node of the search graph: a sub-question about a region, and the response to it.

    Its parent is the node that it follows up on, or the region's formulation (the root, equation 4) if it is `None`.
    """

    region: int
    question: str
    parent: _Node | None = None
    response: str = ""


class VisionSearchAssistant:
    """The method of Vision Search Assistant (arXiv 2410.21220), sections 3.1 to 3.3.

    Regions are captioned for the question (equation 2) and correlated with each other's captions (equation 3); without
    regions, the whole image is the only one. Each update of the graph asks sub-questions, each a child of a formulation
    or of an earlier sub-question, and searches for all of them at once, on their own and combined with the formulation.
    The results of each are selected by formulation, sub-question and the parent's response, and summarized (equations 4
    and 6); the responses of an update and the knowledge so far are summarized as its knowledge (equations 5 and 6).
    This ends when a judge finds the knowledge sufficient. The answer is generated from image, formulations and
    knowledge (equation 7).

    A single request writes the sub-questions of all nodes and judges, where the paper sends one for each; selecting and
    summarizing results also takes a single request. The model writes JSON, or a list of questions if it cannot, and
    nothing that it writes is executed.

    Args:
        wordings: The published prompts of captions, their correlation and the answer; `None` for ours. The search
            between them is ours in any case: the published code delegates it to MindSearch.
        official: Whether the answer is the reply as it is; otherwise, it is parsed.
    """

    name = "vsa"
    rounds = 4
    """Three updates of the graph, and the answer."""

    def __init__(self, wordings: Wordings | None = None, *, official: bool = False) -> None:
        self._wordings, self._official = wordings, official
        self._formulations: list[str] = []
        self._nodes: list[_Node] = []
        self._knowledge: list[str] = []
        self._asked: list[_Node] = []
        self._last = Round(0)

    async def decide(self, run: AgentRun) -> Decision:
        """Formulates the regions first, then updates the graph or answers."""
        if not self._formulations:
            self._formulations = await self._formulate(run)
        elif self._asked:
            await self._respond(run)
        messages = [system(_PLAN), await question_message(run, self._known())]
        reply = await run.ask("sub-questions", messages, max_tokens=512, schema=_UPDATE)
        update = read_update(reply.text)
        questions = [] if update is None else self._new(update.get("questions"))
        if is_true((update or {}).get("sufficient")) or (update is not None and not questions and self._nodes):
            answer = await self._answer(run)
            if run.verbatim:
                return Decision("The knowledge suffices.", answer=answer)
            return answered(answer, "The knowledge suffices.")
        if not questions:
            return Decision("", problem="sub-questions must be a JSON object as described")
        self._asked, self._last = questions, run.rounds[-1]
        thought = "\n".join(f"Region {node.region}: {node.question}" for node in questions)
        return Decision(thought, tuple(Call(run.search_tool, {"queries": self._queries(node)}) for node in questions))

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from the image, the formulations and the knowledge."""
        if self._asked:
            await self._respond(run)
        answer = await self._answer(run)
        return None if not run.verbatim and is_abstention(answer) else answer

    async def _formulate(self, run: AgentRun) -> list[str]:
        if IMAGE not in run.images:
            return [""]
        image = run.image(IMAGE)
        crops = [box.crop(image) for box in run.boxes[:REGIONS]] or [image]
        if self._wordings is not None:
            label = "object" if run.boxes else IMAGE  # a proposer has no labels, and "image" is the published one
            return await self._published(run, self._wordings, crops, label)
        asked = f"Question: {run.question}"
        replies = await asyncio.gather(
            *(run.ask("caption", [system(CAPTION), user(asked, [crop])], max_tokens=128) for crop in crops)
        )
        captions = [without_thoughts(reply.text)[:1000] for reply in replies]
        if len(captions) < 2:
            return captions
        others = [
            "\n".join(f"Region {n}: {caption}" for n, caption in enumerate(captions, start=1) if n != own)
            for own in range(1, len(captions) + 1)
        ]
        replies = await asyncio.gather(
            *(
                run.ask(
                    "correlate",
                    [system(_CORRELATE), user(f"{asked}\nThis region: {caption}\n{rest}", [crop])],
                    max_tokens=128,
                )
                for crop, caption, rest in zip(crops, captions, others, strict=True)
            )
        )
        return [without_thoughts(one.text)[:1000] or caption for one, caption in zip(replies, captions, strict=True)]

    async def _published(
        self, run: AgentRun, wordings: Wordings, crops: Sequence[Image.Image], label: str
    ) -> list[str]:
        """Returns captions, correlated if there are several, with the published prompts."""

        async def ask(purpose: str, name: str, crop: Image.Image, **places: Value) -> str:
            message = await asyncio.to_thread(fill, "{image}\n" + wordings[name], {"image": [crop], **places})
            return (await run.ask(purpose, [message], max_tokens=TOKENS)).text.strip().replace('"', "'")

        captions = await asyncio.gather(
            *(ask("caption", "caption", crop, label=label, text=run.question) for crop in crops)
        )
        if len(captions) < 2:
            return list(captions)
        others = [" ".join(captions[:own] + captions[own + 1 :]) for own in range(len(captions))]
        given = zip(crops, captions, others, strict=True)
        return await asyncio.gather(
            *(ask("correlate", "correlate", crop, caption=one, other_captions=rest) for crop, one, rest in given)
        )

    async def _respond(self, run: AgentRun) -> None:
        """Summarizes the results of each sub-question, concurrently, then the update as a whole."""

        async def respond(node: _Node, record: CallRecord) -> None:
            about = f"About: {self._formulations[node.region - 1]}"
            if node.parent is not None and node.parent.response:
                about += f"\nKnown before: {node.parent.response}"
            asked = f"Sub-question: {node.question}\n{about}\n\n{run.results([record])}"
            reply = await run.ask("respond", [system(SOLVE), user(asked)], max_tokens=256)
            node.response = without_thoughts(reply.text)[:2000]

        pairs = zip(self._asked, self._last.calls, strict=False)
        await asyncio.gather(*(respond(node, record) for node, record in pairs if record.numbers))
        self._nodes += self._asked
        self._asked = []
        if any(node.response for node in self._nodes):
            messages = [system(_KNOWLEDGE), user(f"Question: {run.question}{self._known()}")]
            reply = await run.ask("knowledge", messages, max_tokens=400)
            self._knowledge.append(without_thoughts(reply.text)[:3000])

    async def _answer(self, run: AgentRun) -> str:
        if self._wordings is not None:
            places: dict[str, Value] = {
                "image": given_images(run),
                "text": run.question,
                "contexts": " ".join(self._contexts(run.question)),
            }
            message = await asyncio.to_thread(fill, "{image}\n" + self._wordings["answer"], places)
            reply = await run.ask("answer", [message], max_tokens=TOKENS)
            run.verbatim = self._official
            return reply.text if self._official else plain_answer(reply) or "unknown"
        messages = [system(_COLLABORATE), await question_message(run, self._known())]
        return plain_answer(await run.ask("answer", messages, max_tokens=256)) or "unknown"

    def _contexts(self, question: str) -> list[str]:
        """Returns, for each region, its query and what was found for it, cut to an equal share of `CONTEXT`."""
        limit = CONTEXT // len(self._formulations)
        found = [
            " ".join(node.response for node in self._nodes if node.region == number and node.response)
            for number in range(1, len(self._formulations) + 1)
        ]
        pairs = zip(self._formulations, found, strict=True)
        return [f"{question} {formulation}{text}"[:limit] for formulation, text in pairs]

    def _queries(self, node: _Node) -> list[str]:
        """Returns the sub-question, and the sub-question combined with the formulation of its region."""
        formulation = self._formulations[node.region - 1]
        return [node.question, f"{node.question} {formulation}"[:1000]] if formulation else [node.question]

    def _known(self) -> str:
        """Returns the formulations, the sub-questions with their responses, and each update's knowledge, as text."""
        lines = [
            f"Region {n}: {formulation}" for n, formulation in enumerate(self._formulations, start=1) if formulation
        ]
        for number, node in enumerate(self._nodes, start=1):
            after = f", after {self._nodes.index(node.parent) + 1}" if node.parent is not None else ""
            response = node.response or "Nothing was found."
            lines.append(f"Sub-question {number} (region {node.region}{after}): {node.question} {response}")
        lines += [f"Knowledge of update {n}: {text}" for n, text in enumerate(self._knowledge, start=1) if text]
        return "\n\n" + "\n".join(lines)

    def _new(self, rows: object) -> list[_Node]:
        """Returns the new sub-questions of a reply; a region that does not exist becomes the first."""
        asked = {node.question.casefold() for node in self._nodes}
        nodes: list[_Node] = []
        for row in rows if isinstance(rows, list) else []:
            question = row.get("question", row.get("query")) if isinstance(row, dict) else row
            region = row.get("region") if isinstance(row, dict) else 1
            if isinstance(question, str) and question.strip() and question.strip().casefold() not in asked:
                asked.add(question.strip().casefold())
                parent = _element(self._nodes, row.get("after") if isinstance(row, dict) else None)
                if not isinstance(region, int) or not 1 <= region <= len(self._formulations):
                    region = 1 if parent is None else parent.region
                nodes.append(_Node(int(region), question.strip()[:1000], parent))
        return nodes[:SUB_QUESTIONS]


def _element(nodes: Sequence[_Node], number: object) -> _Node | None:
    """Returns the node with a number from 1, or `None` if there is none."""
    return nodes[number - 1] if isinstance(number, int) and 1 <= number <= len(nodes) else None


def read_update(text: str) -> dict[str, Any] | None:
    r"""Parses an update of the graph in any form that models write; returns it as JSON, or `None` if it is malformed.

    Besides JSON, accepts a list of questions, a verdict in plain text, and programs like those of MindSearch's planner,
    which are parsed and never run.

    Example:
        >>> read_update('graph.add_node(node_name="a", node_content="What is it?")\ngraph.node("a")')
        {'questions': ['What is it?']}
        >>> read_update("graph.add_response_node(node_name='response')")
        {'sufficient': True}
    """
    plain = without_thoughts(text)
    if "add_node(" in plain or "add_response_node(" in plain:
        questions = [found[2].strip() for found in _PROGRAM_NODE.finditer(plain)]
        return {"questions": questions} if questions else {"sufficient": True}
    for value in json_values(plain, "{["):
        if isinstance(value, list) and value:
            return {"questions": value}
        if isinstance(value, dict):
            known = {_KEYS[plain_key]: one for key, one in value.items() if (plain_key := _plain(key)) in _KEYS}
            if known:
                return known
    if questions := [question for question in tagged(plain, "sub-?_?question") if question]:
        return {"questions": questions}
    if _ENOUGH.match(plain):
        return {"sufficient": True}
    items = [item.strip(" *") for item in _ITEM.findall(plain)]
    questions = items or [line.strip() for line in plain.splitlines() if line.strip().endswith(("?", "\uff1f"))]
    return {"questions": questions} if questions else None


def _plain(key: str) -> str:
    return re.sub(r"[\s_-]", "", key.lower())


VSA = PolicyKind(
    lambda given: VisionSearchAssistant(given.wordings, official=given.official), PUBLISHED, needs_regions=True
)
