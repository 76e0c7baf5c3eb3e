"""OmniSearch: thought, sub-question and one of four actions a round; a solver answers each sub-question."""

from __future__ import annotations

import re

from agents import prompts
from agents.parsing import is_abstention, plain_answer, without_think, without_thoughts
from agents.policies.messages import answered, followed_by, question_message, results_message, system, user
from agents.state import IMAGE, AgentRun, Call, Decision, Round
from llm.messages import Message

_NAMES = {
    "thought": "thought", "sub-question": "subquestion", "subquestion": "subquestion", "sub question": "subquestion",
    "search": "search", "end": "end", "思考": "thought", "子问题": "subquestion", "搜索": "search", "结束": "end",
}  # fmt: skip
"""Our names of the tags, English and Chinese."""
_TAG = re.compile(rf"<\s*(/?)\s*({'|'.join(_NAMES)})\s*[;:\uff1b]?\s*>", re.IGNORECASE)
_LABEL = re.compile(rf"^[ \t*#]*({'|'.join(_NAMES)})[ \t*]*[:\uff1a]", re.IGNORECASE | re.MULTILINE)
"""`Thought:` at the start of a line, in place of a tag."""
_FINAL = re.compile(r"^[ \t*\"']*(?:final answer|最终答案)[ \t*\"']*[:\uff1a][ \t*]*", re.IGNORECASE | re.MULTILINE)
_ACTIONS = {
    "image retrieval with input image": "image_search", "输入图片进行图片检索": "image_search",
    "image retrieval with text query": "find_images", "文本查询进行图像检索": "find_images",
    "文本查询进行图像索": "find_images", "text retrieval": "text_search", "文本检索": "text_search",
    "no retrieval": "", "不检索": "",
}  # fmt: skip
"""The tool of each action, as the paper's English and Chinese prompts name it, a slip of the latter included."""
_ACTION = re.compile(rf"({'|'.join(_ACTIONS)})[\"'*`\])\s:\uff1a.-]*([^\n]*)", re.IGNORECASE)
_NEXT_ACTION = re.compile("|".join(_ACTIONS), re.IGNORECASE)
_QUERY_ENDS = " \t.\"'`*。“”"


class OmniSearch:
    """The planning agent of OmniSearch (arXiv 2411.02937), section 4.2 and table 10.

    At most five rounds of thought, sub-question, action and solver. All four actions, "No Retrieval" among them, which
    leaves the sub-question to the solver. A final answer counts only outside of thoughts, and only if it comes before
    any action of the same reply. A query ends with its line. Tags and actions may be those of the Chinese prompt, and
    the answer is in the question's language.
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
        if final:
            return answered(final, thought)
        action = _ACTION.search(search)
        tool, query = (
            ("", "")
            if action is None
            else (_ACTIONS[action[1].lower()], _NEXT_ACTION.split(action[2])[0].strip(_QUERY_ENDS))
        )
        if action is None or (tool in ("text_search", "find_images") and not query):
            return Decision(thought, problem=prompts.OMNISEARCH_MALFORMED)
        self._pending = question or run.question
        return Decision(f"{thought}\nSub-question: {self._pending}".strip(), _calls(run, tool, query))

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
        asked = f"Sub-question: {self._pending}\n\n{texts if last.calls else ''}".strip()
        seen = [run.images[IMAGE]] if IMAGE in run.images else []
        messages = [system(prompts.SOLVE), user(asked, [*seen, *images])]
        solved = without_thoughts((await run.ask("solve", messages, max_tokens=256)).text)
        self._pending = ""
        return user(f"Answer to the sub-question: {solved or 'nothing was found'}")


def read_step(text: str) -> tuple[str, str, str, str | None]:
    """Returns thought, sub-question, search and final answer of a step; of search and end, the first one counts.

    Lines that begin with `Thought:` and the like stand for tags if there are none.

    Example:
        >>> read_step("<Thought> Final Answer: no? <Search> No Retrieval")
        ('Final Answer: no?', '', 'No Retrieval', None)
    """
    parts: dict[str, str] = {}
    text = without_think(text)
    if not _TAG.search(text):
        text = _LABEL.sub(lambda label: f"<{label[1]}>", text)
    tags = list(_TAG.finditer(text))
    outside = text[: tags[0].start()] if tags else text
    ends = [tag.start() for tag in tags[1:]] + [len(text)] * bool(tags)
    for tag, after in zip(tags, ends, strict=True):
        name, content = _NAMES[tag[2].lower()], text[tag.end() : after].strip()
        if {"search", "end"} & parts.keys():
            break
        if tag[1]:
            # Behind a closed sub-question inside of a thought, the thought goes on.
            outside += "\n" + content if name != "subquestion" else ""
        elif name not in parts:
            parts[name] = content
    final = parts.get("end")
    if final is None and "search" not in parts and (found := _FINAL.search(outside)):
        final = outside[found.start() :]
    thought, question, search = (parts.get(name, "") for name in ("thought", "subquestion", "search"))
    return thought, question, search, None if final is None else _FINAL.sub("", final, count=1).strip()


def _calls(run: AgentRun, tool: str, query: str) -> tuple[Call, ...]:
    if tool == "image_search":
        return tuple(Call(one, {}) for one in ("image_search", "web_image_search") if one in run.tools)
    if tool == "find_images":
        return (Call("find_images", {"query": query}),)
    if tool == "text_search":
        return tuple(Call(one, {"queries": [query]}) for one in ("text_search", "web_search") if one in run.tools)
    return ()
