"""OmniSearch: thought, sub-question and one of four actions a round; a solver answers each sub-question."""

from __future__ import annotations

import re

from agents import prompts
from agents.parsing import is_abstention, plain_answer, without_thoughts
from agents.policies.messages import answered, followed_by, question_message, results_message, system, user
from agents.state import IMAGE, AgentRun, Call, Decision, Round
from llm.chat import Message

_TAG = re.compile(r"<(/?)\s*(thought|sub-?question|search|end)\s*[;:]?\s*>", re.IGNORECASE)
_FINAL = re.compile(r"\A\s*Final Answer\s*:\s*", re.IGNORECASE)
_ACTION = re.compile(
    r"\A\W*(image retrieval with input image|image retrieval with text query|text retrieval|no retrieval)\b"
    r"[ \t]*:?[ \t]*([^\n]*)",
    re.IGNORECASE,
)
_WITH_QUERY = ("text retrieval", "image retrieval with text query")


class OmniSearch:
    """The planning agent of OmniSearch (arXiv 2411.02937), section 4.2 and table 10.

    At most five rounds of thought, sub-question, action and solver. All four actions, "No Retrieval" among them, which
    leaves the sub-question to the solver. A final answer counts only outside of thoughts, and only if it comes before
    any action of the same reply. A query ends with its line.
    """

    name = "omnisearch"
    rounds = 6
    """Five actions, and the reply after the last."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._pending = ""
        """The sub-question whose results wait for the solver."""
        self._last = Round(0)
        """The round whose results the model has not seen."""

    async def decide(self, run: AgentRun) -> Decision:
        """Lets the solver answer the last sub-question, then asks for the next step."""
        if not self._messages:
            self._messages = [system(prompts.OMNISEARCH), await question_message(run)]
        else:
            self._messages.append(await self._continue(run))
        reply = await run.ask("plan", self._messages)
        self._messages.append({"role": "assistant", "content": reply.text or "(nothing)"})
        self._last = run.rounds[-1]
        thought, question, search, final = read_step(reply.text)
        if final is not None:
            return answered(final, thought)
        action = _ACTION.match(search)
        if action is None or (action[1].lower() in _WITH_QUERY and not action[2].strip()):
            return Decision(thought, problem=prompts.OMNISEARCH_MALFORMED)
        self._pending = question or run.question
        return Decision(f"{thought}\nSub-question: {self._pending}".strip(), _calls(run, action[1].lower(), action[2]))

    async def conclude(self, run: AgentRun) -> str | None:
        """Lets the solver answer the last sub-question, then asks for the final answer."""
        if not self._messages:
            self._messages = [system(prompts.OMNISEARCH), await question_message(run)]
        elif self._messages[-1]["role"] == "assistant":
            self._messages.append(await self._continue(run))
        asked = followed_by(self._messages, prompts.OMNISEARCH_CONCLUDE)
        reply = await run.ask("conclude", asked, max_tokens=256)
        final = read_step(reply.text)[3] or _FINAL.sub("", plain_answer(reply.text) or "")
        return None if is_abstention(final) else final

    async def _continue(self, run: AgentRun) -> Message:
        last = self._last
        if last.problem or not self._pending:
            return user(last.problem or prompts.OMNISEARCH_MALFORMED)
        found = results_message(run, last)["content"]
        texts = found if isinstance(found, str) else found[-1]["text"]
        images = [image for record in last.calls for image in record.observation.images.values()]
        asked = f"{texts if last.calls else ''}\n\nSub-question: {self._pending}".strip()
        messages = [system(prompts.SOLVE), user(asked, [run.image(IMAGE), *images])]
        solved = without_thoughts((await run.ask("solve", messages, max_tokens=256)).text)
        self._pending = ""
        return user(f"Answer to the sub-question: {solved or 'nothing was found'}")


def read_step(text: str) -> tuple[str, str, str, str | None]:
    """Returns thought, sub-question, search and final answer of a step; of search and end, the first one counts.

    Example:
        >>> read_step("<Thought> Final Answer: no? <Search> No Retrieval")
        ('Final Answer: no?', '', 'No Retrieval', None)
    """
    parts: dict[str, str] = {}
    text = text[:50_000]
    tags = list(_TAG.finditer(text))
    ends = [tag.start() for tag in tags[1:]] + [len(text)] * bool(tags)
    for tag, after in zip(tags, ends, strict=True):
        name = tag[2].lower().replace("-", "")
        if tag[1] or name in parts:
            continue
        if {"search", "end"} & parts.keys():
            break
        parts[name] = text[tag.end() : after].strip()
    final = parts.get("end")
    if final is None and not tags and _FINAL.match(text):
        final = text
    thought, question, search = (parts.get(name, "") for name in ("thought", "subquestion", "search"))
    return thought, question, search, None if final is None else _FINAL.sub("", final).strip()


def _calls(run: AgentRun, action: str, query: str) -> tuple[Call, ...]:
    query = query.strip().strip("\"'")
    if action == "image retrieval with input image":
        return (Call("image_search", {}),)
    if action == "image retrieval with text query":
        return (Call("find_images", {"query": query}),)
    if action == "text retrieval":
        return tuple(Call(tool, {"queries": [query]}) for tool in ("text_search", "web_search") if tool in run.tools)
    return ()
