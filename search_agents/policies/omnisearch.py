"""OmniSearch: a thought, a sub-question and one of four actions per round; a solver answers each sub-question."""

from __future__ import annotations

import re
from dataclasses import replace

from chat_models.messages import Message
from chat_models.replies import ChatReply
from chat_models.turns import turn_of
from search_agents.answers import plain_answer
from search_agents.calls import calls_of
from search_agents.parsing import is_abstention, json_object, without_think, without_thoughts
from search_agents.policies.messages import CUT, SOLVE, answered, followed_by, images_of, question_message, system, user
from search_agents.records import IMAGE, Call, Decision, Round
from search_agents.state import AgentRun

_NAMES = {
    "thought": "thought", "sub-question": "subquestion", "subquestion": "subquestion", "sub question": "subquestion",
    "sub_question": "subquestion", "search": "search", "action": "search", "end": "end", "final answer": "end",
    "final_answer": "end", "answer": "end", "思考": "thought", "子问题": "subquestion", "搜索": "search", "结束": "end",
}  # fmt: skip
"""Our names of the English and Chinese tags."""
_ANY_NAME = "|".join(sorted(_NAMES, key=len, reverse=True))
_TAG = re.compile(rf"<\s*(/?)\s*({_ANY_NAME})\s*[;:\uff1b]?\s*>", re.IGNORECASE)
_LABEL = re.compile(
    rf"^[ \t]*(?:\#+[ \t*]*({_ANY_NAME})[ \t*]*[:\uff1a]?[ \t*]*$|[*\# \t]*({_ANY_NAME})[ \t*]*[:\uff1a][ \t*]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""`Thought:` at the start of a line, or `### Thought` on its own line, instead of a tag."""
_FINAL = re.compile(
    r"^[ \t*\"':>]*(?:(?:the )?final answer(?: is)?|最终答案)[ \t*\"']*[:\uff1a][ \t*]*", re.IGNORECASE | re.MULTILINE
)
_ACTIONS = {
    "image retrieval with input image": "image_search", "输入图片进行图片检索": "image_search",
    "image retrieval with text query": "find_images", "文本查询进行图像检索": "find_images",
    "文本查询进行图像索": "find_images", "text retrieval": "text_search", "文本检索": "text_search",
    "no retrieval": "", "不检索": "",
}  # fmt: skip
"""The tool for each action, as named in the paper's English and Chinese prompts, including a typo in the latter."""
_ANY_ACTION = "|".join(action.replace(" ", r"[\s_-]+") for action in _ACTIONS)
_WITH = r"(?:[ \t]+(?:with|for|of)\b(?:[ \t]+(?:a|the|specific|text|search|query)\b)*)?"
_ACTION = re.compile(rf"({_ANY_ACTION}){_WITH}[\"'*`(\[\])\s:\uff1a.-]*([^\n]*)", re.IGNORECASE)
_NEXT_ACTION = re.compile(_ANY_ACTION, re.IGNORECASE)
_TOOLS = ("image_search", "text_search", "find_images", "web_search", "web_image_search")
"""Tools that a reply may call by name instead of naming an action."""
_QUERY_ENDS = " \t.\"'`*()[]。“”"


STEPS = """\
You answer a question about an image by splitting it into sub-questions, which are answered one at a time. Somebody \
else searches for you and answers each sub-question. Do not answer from your own memory, and do not guess what the \
image shows.

Write each step in exactly this form and then stop:
<thought> what is known, and what has to be found out next </thought>
<sub-question> one question that a single search can answer, with names instead of pronouns </sub-question>
<search> one of the four actions </search>

The actions:
Image Retrieval with Input Image
Text Retrieval: the query
Image Retrieval with Text Query: the query
No Retrieval

When all is known, write instead:
<thought> how the answers lead to the final one </thought>
<end> Final Answer: the shortest answer, or unknown </end>"""
_MALFORMED = (
    "That step has neither a known action between <search> and </search> nor a final answer between <end> and </end>. "
    "Write the step again in the form described."
)
_CONCLUDE = "No more searches. Write <end> Final Answer: ... </end> now, or unknown if it is not known."


class OmniSearch:
    """The planning agent of OmniSearch (arXiv 2411.02937), section 4.2 and table 10.

    It has at most five rounds of thought, sub-question, action and solver, with all four actions; "No Retrieval" leaves
    the sub-question to the solver. A final answer counts only outside of thoughts, and only before any action of the
    same reply. A query ends at the end of its line; without a query, the sub-question is searched for. Tags and actions
    may be those of the Chinese prompt, and the answer is in the question's language.

    The same model is planner and solver. If it writes the next step instead of the solver's answer, that step is taken,
    and the results replace the answer.
    """

    name = "omnisearch"
    rounds = 6
    """Five actions, and the reply after the last."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._pending = ""
        """The sub-question that the solver has yet to answer."""
        self._last = Round(0)
        """The round whose results the model has not seen yet."""

    async def decide(self, run: AgentRun) -> Decision:
        """Lets the solver answer the last sub-question, then asks for the next step."""
        step = None
        if not self._messages:
            self._messages = [system(STEPS), await question_message(run)]
        else:
            message, step = await self._continue(run)
            self._messages.append(message)
        reply = step or await run.ask("plan", self._messages)
        self._messages.append(turn_of(reply))
        self._last = run.rounds[-1]
        thought, question, search, final = read_step(reply.text)
        if final:
            return answered(final, thought)
        tool, query = _read_action(search, question)
        calls = _calls(run, tool, query) if tool else ()
        if tool is None:
            untagged = replace(reply, text=re.sub(r"<\s*/?\s*search\s*>", "\n", reply.text))  # here, it is no call
            found, _ = calls_of(untagged, _TOOLS)
            calls = tuple(call for call in found if call.tool in _TOOLS and call.tool in run.tools)
            if not calls:
                return Decision(thought, problem=CUT if reply.cut else _MALFORMED)
        self._pending = question or run.question
        return Decision(f"{thought}\nSub-question: {self._pending}".strip(), calls)

    async def conclude(self, run: AgentRun) -> str | None:
        """Lets the solver answer the last sub-question, then asks for the final answer."""
        if not self._messages:
            self._messages = [system(STEPS), await question_message(run)]
        elif self._messages[-1]["role"] == "assistant":
            message, _ = await self._continue(run)
            self._messages.append(message)
        asked = followed_by(self._messages, _CONCLUDE)
        reply = await run.ask("conclude", asked, max_tokens=256)
        thought, question, search, final = read_step(reply.text)
        if not final and (inside := _FINAL.search(thought)):  # this is the last reply, so look inside the thought too
            final = thought[inside.end() :].strip()
        if not final and not (thought or question or search):  # a further step is no answer
            final = _FINAL.sub("", plain_answer(reply, run.tools) or "")
        final = final or ""
        return None if is_abstention(final) else final

    async def _continue(self, run: AgentRun) -> tuple[Message, ChatReply | None]:
        """Returns the answer to the last sub-question, and the next step if the solver wrote one instead."""
        last = self._last
        if last.problem or not self._pending:
            return user(last.problem or _MALFORMED), None
        texts = run.results(last.calls) or "nothing found"
        asked = f"Sub-question: {self._pending}\n\n{texts if last.calls else ''}".strip()
        seen = [run.images[IMAGE]] if IMAGE in run.images else []
        messages = [system(SOLVE), user(asked, [*seen, *images_of(last.calls)])]
        reply = await run.ask("solve", messages, max_tokens=256)
        self._pending = ""
        _, question, search, final = read_step(reply.text)
        if _read_action(search, question)[0] is not None:
            return user(f"Results for the sub-question:\n{texts}"), reply
        solved = final or without_thoughts(reply.text)
        return user(f"Answer to the sub-question: {solved or 'nothing was found'}"), None


def read_step(text: str) -> tuple[str, str, str, str | None]:
    """Returns the thought, sub-question, search and final answer of a step; of search and end, the first one counts.

    Without tags, lines that begin with `Thought:` and the like are used instead.

    Example:
        >>> read_step("<Thought> Final Answer: no? <Search> No Retrieval")
        ('Final Answer: no?', '', 'No Retrieval', None)
    """
    parts: dict[str, str] = {}
    text = without_think(text)
    if not _TAG.search(text):
        value = json_object(text) if re.match(r"\s*(?:```[\w-]*\s*)?\{", text) else None
        if value is not None:
            written = {key: _joined(one) for key, one in value.items() if isinstance(one, str | int | float | dict)}
            text = "\n".join(f"<{key}> {one}" for key, one in written.items())
        text = _LABEL.sub(lambda label: f"<{label[1] or label[2]}>", text)
    tags = list(_TAG.finditer(text))
    outside = text[: tags[0].start()] if tags else text
    ends = [tag.start() for tag in tags[1:]] + [len(text)] * bool(tags)
    for tag, after in zip(tags, ends, strict=True):
        name, content = _NAMES[tag[2].lower()], text[tag.end() : after].strip()
        if {"search", "end"} & parts.keys():
            break
        if tag[1]:
            # After a closed sub-question inside a thought, the thought continues.
            outside += "\n" + content if name != "subquestion" else ""
        elif name not in parts:
            parts[name] = content
    final = parts.get("end")
    if final is None and "search" not in parts and (found := _FINAL.search(outside)):
        final = outside[found.start() :]
    thought, question, search = (parts.get(name, "") for name in ("thought", "subquestion", "search"))
    return thought, question, search, None if final is None else _FINAL.sub("", final, count=1).strip()


def _joined(value: object) -> str:
    """Returns a JSON value as text; the values of an object, such as action and query, are joined."""
    parts = value.values() if isinstance(value, dict) else [value]
    return ": ".join(str(part) for part in parts if isinstance(part, str | int | float))


def _read_action(search: str, question: str) -> tuple[str | None, str]:
    """Returns the tool and the query of an action, or the sub-question as the query; `None` if there is no action.

    Example:
        >>> _read_action("Text Retrieval with the query 'Niger capital'", "What is its capital?")
        ('text_search', 'Niger capital')
        >>> _read_action("No Retrieval", ""), _read_action("Text Retrieval", "")
        (('', ''), (None, ''))
    """
    action = _ACTION.search(search)
    if action is None:
        return None, ""
    tool = _ACTIONS[re.sub(r"[\s_-]+", " ", action[1].lower())]
    query = _NEXT_ACTION.split(action[2])[0].strip(_QUERY_ENDS) or question
    return (None, "") if tool in ("text_search", "find_images") and not query else (tool, query)


def _calls(run: AgentRun, tool: str, query: str) -> tuple[Call, ...]:
    if tool == "image_search":
        return tuple(Call(one, {}) for one in ("image_search", "web_image_search") if one in run.tools)
    if tool == "find_images":
        return (Call("find_images", {"query": query}),)
    if tool == "text_search":
        return tuple(Call(one, {"queries": [query]}) for one in ("text_search", "web_search") if one in run.tools)
    return ()
