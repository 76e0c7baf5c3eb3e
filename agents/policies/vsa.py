"""Vision Search Assistant: captions of regions, correlated, then a graph of sub-questions, then an answer from all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agents import prompts
from agents.parsing import is_abstention, json_object, plain_answer, without_thoughts
from agents.policies.messages import answered, question_message, system, user
from agents.state import IMAGE, AgentRun, Call, CallRecord, Decision, Round

REGIONS = 6
"""Regions that are described; further ones are left out."""
SUB_QUESTIONS = 4
"""Sub-questions of one update of the graph."""


@dataclass(slots=True)
class _Node:
    """A sub-question about a region, and the response to it."""

    region: int
    question: str
    response: str = ""


class VisionSearchAssistant:
    """The method of Vision Search Assistant (arXiv 2410.21220), sections 3.1 to 3.3.

    Regions are captioned for the question (equation 2) and correlated with each other's captions (equation 3); without
    regions the whole image is one. Each update of the graph asks sub-questions about the formulations and the
    responses so far, searches for all of them at once, and summarizes each result (equations 4 to 6), until a judge
    finds the knowledge sufficient. The answer is made of image, formulations and knowledge (equation 7).

    One request makes the sub-questions of all nodes and judges, where the paper sends one for each; pages are chosen
    and summarized in one request too. The model writes JSON, and nothing that it writes is executed.
    """

    name = "vsa"
    rounds = 4
    """Three updates of the graph, and the answer."""

    def __init__(self) -> None:
        self._formulations: list[str] = []
        self._nodes: list[_Node] = []
        self._asked: list[_Node] = []
        self._last = Round(0)

    async def decide(self, run: AgentRun) -> Decision:
        """Formulates the regions at first, then updates the graph or answers."""
        if not self._formulations:
            self._formulations = await self._formulate(run)
        elif self._asked:
            await self._respond(run)
        messages = [system(prompts.SUB_QUESTIONS), await question_message(run, self._knowledge())]
        reply = await run.ask("sub-questions", messages, max_tokens=512, schema=prompts.GRAPH_UPDATE)
        update = json_object(reply.text)
        questions = [] if update is None else self._new(update.get("questions"))
        if (update or {}).get("sufficient") is True or (update is not None and not questions and self._nodes):
            return answered(await self._answer(run), "The knowledge suffices.")
        if not questions:
            return Decision("", problem="sub-questions must be a JSON object as described")
        self._asked, self._last = questions, run.rounds[-1]
        tool = "web_search" if "web_search" in run.tools else "text_search"
        thought = "\n".join(f"Region {node.region}: {node.question}" for node in questions)
        return Decision(thought, tuple(Call(tool, {"queries": [node.question]}) for node in questions))

    async def conclude(self, run: AgentRun) -> str | None:
        """Answers from the image, the formulations and the knowledge."""
        if self._asked:
            await self._respond(run)
        answer = await self._answer(run)
        return None if is_abstention(answer) else answer

    async def _formulate(self, run: AgentRun) -> list[str]:
        image = run.image(IMAGE)
        crops = [box.crop(image) for box in run.boxes[:REGIONS]] or [image]
        asked = f"Question: {run.question}"
        replies = await asyncio.gather(
            *(run.ask("caption", [system(prompts.CAPTION), user(asked, [crop])], max_tokens=128) for crop in crops)
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
                    [system(prompts.CORRELATE), user(f"{asked}\nThis region: {caption}\n{rest}", [crop])],
                    max_tokens=128,
                )
                for crop, caption, rest in zip(crops, captions, others, strict=True)
            )
        )
        return [without_thoughts(one.text)[:1000] or caption for one, caption in zip(replies, captions, strict=True)]

    async def _respond(self, run: AgentRun) -> None:
        """Summarizes what was found for each sub-question, all at once."""

        async def respond(node: _Node, record: CallRecord) -> None:
            about = f"About: {self._formulations[node.region - 1]}\nSub-question: {node.question}"
            asked = f"{run.results([record])}\n\n{about}"
            reply = await run.ask("respond", [system(prompts.SOLVE), user(asked)], max_tokens=256)
            node.response = without_thoughts(reply.text)[:2000]

        pairs = zip(self._asked, self._last.calls, strict=False)
        await asyncio.gather(*(respond(node, record) for node, record in pairs if record.numbers))
        self._nodes += self._asked
        self._asked = []

    async def _answer(self, run: AgentRun) -> str:
        messages = [system(prompts.COLLABORATE), await question_message(run, self._knowledge())]
        return plain_answer((await run.ask("answer", messages, max_tokens=256)).text) or "unknown"

    def _knowledge(self) -> str:
        lines = [f"Region {n}: {formulation}" for n, formulation in enumerate(self._formulations, start=1)]
        lines += [
            f"Region {node.region}, {node.question} {node.response or 'Nothing was found.'}" for node in self._nodes
        ]
        return "\n\n" + "\n".join(lines)

    def _new(self, rows: object) -> list[_Node]:
        """Returns the new sub-questions of a reply; a region that does not exist becomes the first."""
        asked = {node.question.casefold() for node in self._nodes}
        nodes: list[_Node] = []
        for row in rows if isinstance(rows, list) else []:
            question = row.get("question") if isinstance(row, dict) else row
            region = row.get("region") if isinstance(row, dict) else 1
            if isinstance(question, str) and question.strip() and question.strip().casefold() not in asked:
                asked.add(question.strip().casefold())
                number = region if isinstance(region, int) and 1 <= region <= len(self._formulations) else 1
                nodes.append(_Node(int(number), question.strip()[:1000]))
        return nodes[:SUB_QUESTIONS]
