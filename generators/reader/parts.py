"""Questions of two parts ("Who designed it, and when?"): each is read alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from retriever.types import Generation

_WH = (
    r"(?:who|whom|when|where|why|how(?: (?:many|much|old|tall|high|long|big|large|far|heavy|wide|deep))?|"
    r"(?:in |on |at |for )?(?:what|which)(?: year| date| day| month| place| city| country)?)"
)
_TWO = re.compile(rf"^({_WH}\b.*?),? and (?:also )?({_WH}\b.*)$", re.IGNORECASE)
_ASKS = re.compile(rf"^{_WH}\b", re.IGNORECASE)
_NAMED = re.compile(r"^(?:what|which) (?:is|are|was|were) (the .+)$", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|they)\b", re.IGNORECASE)


def parts_of(question: str) -> tuple[str, ...]:
    """Returns the questions that one question asks, each with the words that the others leave out.

    Example:
        >>> parts_of("Who designed it, and when?"), parts_of("What is the top and how high is it?")
        (('Who designed it?', 'when designed it?'), ('What is the top?', 'how high is the top?'))
    """
    found = _TWO.match(" ".join(question.split()).rstrip(" ?.!"))
    if found is None:
        return (question,)
    first, second = found.groups()
    if not _ASKS.sub("", first).strip():
        first += _ASKS.sub("", second)
    if not _ASKS.sub("", second).strip():
        second += _ASKS.sub("", first)
    elif named := _NAMED.match(first):
        second = _IT.sub(named[1], second)
    return f"{first}?", f"{second}?"


def joined(questions: Sequence[str], answers: Sequence[Generation]) -> Generation:
    """Returns the answers to the parts of a question as one, which says what was not found."""
    given = [one for one in answers if one.answer is not None]
    if len(answers) == 1 or not given:
        return answers[0]
    missing = [question.rstrip("?") for question, one in zip(questions, answers, strict=True) if one.answer is None]
    if not missing and len({one.answer for one in given}) == 1:
        return given[0]
    text = "; ".join([*(one.answer or "" for one in given), *(f"not found: {question}" for question in missing)])
    return replace(given[0], answer=text, confidence=min(one.confidence or 0.0 for one in given))
