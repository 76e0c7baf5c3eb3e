"""MMSearch-Plus: a multimodal model calls tools round after round until it answers with citations."""

from __future__ import annotations

import json
from dataclasses import replace

from agents import prompts
from agents.parsing import answer_of, calls_of, is_abstention, plain_answer, without_thoughts
from agents.policies.messages import answered, followed_by, question_message, results_message, system
from agents.state import AgentRun, Call, Decision
from agents.tool import Tool
from llm.chat import Message
from llm.replies import ChatReply

OFFERED = (
    "image_search", "text_search", "zoom_in", "rotate", "sharpen", "ocr", "open_page", "web_search", "web_image_search",
)  # fmt: skip
_PUBLISHED = {"image_zoom_in_tool": "zoom_in"}
"""Names of the paper's tools that are ours under another name."""


class MMSearchPlus:
    """The search framework of MMSearch-Plus (arXiv 2508.21475), section 3 and appendix L.

    The model sees the image and the overlay of its regions. It calls image search, text search with up to five queries,
    zoom and page tools, any number at once. Results are numbered over all rounds. The answer stands in `<answer>`.
    Calls take precedence over an answer in the same reply, whose results had not been seen yet. Our additions are
    open_page and rotate; an image search asks the index.

    Args:
        preface: What is known before the first round; follows the question.
    """

    name = "mmsearch-plus"
    rounds = 20

    def __init__(self, preface: str = "") -> None:
        self._preface = preface
        self._messages: list[Message] = []

    async def decide(self, run: AgentRun) -> Decision:
        """Asks the model for tool calls or the answer."""
        await self._continue(run)
        reply = await run.ask("decide", self._messages, tools=offered(run))
        calls, problem = calls_of(reply)
        calls = tuple(replace(call, tool=_PUBLISHED.get(call.tool, call.tool)) for call in calls)
        self._messages.append({"role": "assistant", "content": written(reply, calls) or "(nothing)"})
        thought = _thought(reply.text)
        if calls:
            return Decision(thought, calls, problem=problem)
        answer = answer_of(reply.text)
        if answer is not None:
            return answered(answer, thought)
        return Decision(thought, problem=problem or prompts.MALFORMED)

    async def conclude(self, run: AgentRun) -> str | None:
        """Asks for the answer without tools; here a plain text is an answer too."""
        await self._continue(run)
        reply = await run.ask("conclude", followed_by(self._messages, prompts.CONCLUDE), max_tokens=256)
        answer = plain_answer(reply.text)
        return None if answer is None or is_abstention(answer) else answer

    async def _continue(self, run: AgentRun) -> None:
        """Adds what the last round found; begins the conversation at its first call."""
        if not self._messages:
            self._messages = [system(prompts.TOOL_CALLS), await question_message(run, self._preface)]
        elif self._messages[-1]["role"] == "assistant":
            last = run.rounds[-2]
            self._messages.append(results_message(run, last, last.problem))


def offered(run: AgentRun) -> list[Tool]:
    """Returns the tools of a run that a model may call."""
    return [run.tools[name] for name in OFFERED if name in run.tools]


def written(reply: ChatReply, calls: tuple[Call, ...]) -> str:
    """Returns a reply as text, the API's own calls written out, as the next request repeats it."""
    if not reply.calls:
        return reply.text
    lines = []
    for call in calls:
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        lines.append(f'<tool_call>{{"name": {json.dumps(call.tool)}, "arguments": {arguments}}}</tool_call>')
    return "\n".join([*([reply.text] if reply.text else []), *lines])


def _thought(text: str) -> str:
    """Returns the text before the first call or the answer."""
    plain = without_thoughts(text) or text
    return plain.split("<tool_call>")[0].split("<answer>")[0].strip()[:2000]
