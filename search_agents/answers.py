"""The answer in a reply, and the sources that it cites."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chat_models.layers import bare
from chat_models.replies import ChatReply
from search_agents.calls import calls_of
from search_agents.context import LEFT_OUT, NO_IMAGE
from search_agents.parsing import answer_of, json_object, json_values, labeled_answer, without_thoughts
from search_agents.records import Call
from search_agents.tool import plain_name

TOOLS = (
    *("image_search", "text_search", "find_images", "web_search", "web_image_search", "search", "open_page", "zoom_in"),
    *("rotate", "sharpen", "ocr"),
)
"""Names of tools, for forms of calls that could be something else."""
ANSWERS = ("answer", "final_answer", "finish", "submit_answer")
"""Tool calls with which some models answer."""
_FUNCTION = re.compile(
    r"(?:[a-z][\w.]*\(\s*\w+\s*=\s*[\"'\[{\d-]|[a-z]\w*(?:_|search)\w*[(\[]\s*[\"'\[{]).*[)\]]", re.DOTALL
)
"""A call of an unknown function in Python's syntax, or a name with its query in brackets."""


def plain_answer(reply: ChatReply, names: Collection[str] = ()) -> str | None:
    """Returns the answer in a reply, or `None` if there is none.

    An answer is in a tag, after a label or in a call such as `answer(answer="…")`; otherwise, it is the reply without
    thoughts, unless that contains a tool call in any form that `calls_of` reads. What stands in a conversation for
    something that was left out is no answer: small models repeat it.

    Args:
        reply: The reply.
        names: Names of tools besides `TOOLS`.
    """
    answer = _answer(reply, names)
    return None if answer is not None and answer.strip(" .") in (LEFT_OUT, NO_IMAGE) else answer


def _answer(reply: ChatReply, names: Collection[str]) -> str | None:
    if (answer := answer_of(reply.text) or labeled_answer(reply.text)) is not None:
        return answer
    calls, problem = calls_of(reply, {*TOOLS, *ANSWERS, *names})
    if calls:
        return called_answer(calls)
    rest = re.sub(r"```[\w-]*|</?[a-z_ -]+>", "", without_thoughts(reply.text), flags=re.IGNORECASE).strip()
    called = problem or _FUNCTION.fullmatch(rest) or (rest.startswith("{") and json_object(rest) is not None)
    return None if called else bare(rest) or None


def called_answer(calls: Sequence[Call]) -> str | None:
    """Returns the answer of a call such as `answer(answer="…")`, if that is the only one."""
    if len(calls) != 1 or plain_name(calls[0].tool, ANSWERS) not in ANSWERS:
        return None
    arguments: Any = calls[0].arguments
    if isinstance(arguments, str) and "{" not in arguments:
        listed = next(json_values(arguments, "["), None) if arguments.strip().startswith("[") else None
        arguments = listed or [arguments.strip()]
    if isinstance(arguments, str):
        return labeled_answer(arguments)
    listed = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    values = [part for value in listed for part in (value if isinstance(value, list) else [value])]
    labeled = labeled_answer(json.dumps(arguments))
    return labeled or (str(values[0]) or None if len(values) == 1 else None)


_WORD = r"(?:(?:result|source|web|page|ref|quote)s?(?:[_ ]?id)?\s?[#:]?\s?)?"
_NUMBER = rf"[\"'^#]?{_WORD}\d{{1,9}}(?:\u2020[\w-]{{1,20}})?[\"']?"
_SEPARATOR = r"\s{0,2}(?:[,;\u3001\uff0c]|and|&|-|\u2013|to)\s{0,2}"
_CITATION = re.compile(
    rf"([\"'`]?)[\[\u3010\uff3b]{{1,2}}\s{{0,2}}({_NUMBER}(?:{_SEPARATOR}{_NUMBER})*)\s{{0,2}}[\]\u3011\uff3d]{{1,2}}\1",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d{1,9})[\"']?\s*(?:-|\u2013|to)\s*[\"']?(?:\w+\s+)?(\d{1,9})", re.IGNORECASE)
_LONGEST = 50
"""Maximum length of a range; of a longer one, only the ends count."""


def cited(text: str) -> set[int]:
    """Returns the numbers that a text cites.

    Example:
        >>> sorted(cited("Niamey [1, 9]. Not Lagos ['3'][Result 4]. Nor Abuja [5-7]."))
        [1, 3, 4, 5, 6, 7, 9]
    """
    numbers: set[int] = set()
    for _, group in _CITATION.findall(text):
        group = re.sub(r"\u2020[\w-]+", "", group)
        for first, last in _RANGE.findall(group):
            if int(first) <= int(last) < int(first) + _LONGEST:
                numbers |= set(range(int(first), int(last) + 1))
        numbers |= {int(number) for number in re.findall(r"\d+", group)}
    return numbers


def without_citations(text: str) -> str:
    """Returns a text without its citations.

    Example:
        >>> without_citations("Niamey [1, 9] ."), without_citations("Niamey '[1]'")
        ('Niamey.', 'Niamey')
    """
    text = re.sub(r"(?<!\s)\s+([.,;:!?])", r"\1", _CITATION.sub("", text))
    return re.sub(r"[ \t]{2,}", " ", text).strip()
