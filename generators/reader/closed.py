"""Yes-or-no questions: whether a sentence of the evidence has all that a question says, and whether it denies it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retriever.deixis import without_deixis
from retriever.lexical import labels_of, sentences, tokenize

_CLOSED = re.compile(
    r"^(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must)(?:n't)?|am i)\b",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\bor\b(?! not\b)", re.IGNORECASE)
_DENIAL = re.compile(r"(?:not|no|never|without|lacks?|lacking|cannot)|\w+n['\u2019]t", re.IGNORECASE)
_TOKEN = re.compile(r"[\w'\u2019]+(?:-\w+)*")
_DOUBTED = re.compile(
    r"\b(?:if|may|might|could|perhaps|possibly|probably|sometimes|mistaken\w*|confused|similar\w*|rumou?r\w*|claim\w*|"
    r"planned|proposed|supposed|thought|believed|only|but|although|though|however|unless|until|formerly|former|ex|ended|"
    r"almost|nearly|partly|used to|based|unlike|instead|rather|some|most|many|second|third|one of the)\b",
    re.IGNORECASE,
)
_STRICT = re.compile(r"\b(?:same|than|must|need|should|all|every|each|only|always|still|yet|really|actually)\b", re.I)
"""Words of a question that a sentence can hardly answer with its words alone."""
_DOES = re.compile(
    r"^(?:do|does|did|can|could|will|would|may|might) (?:it|this|that|they|these|those|he|she|you|we|i|one)\b",
    re.IGNORECASE,
)
"""Questions whose first word of content is a verb."""
_YES, _NO = re.compile(r"\s*(?:yes|true|y)\b", re.IGNORECASE), re.compile(r"\s*(?:no|false|n|none)\b", re.IGNORECASE)


APART = 3
"""Maximum number of words, for each that is asked for, between the first and the last in a sentence."""


class Verdict(NamedTuple):
    """What a sentence says about a yes-or-no question.

    Attributes:
        section: Number of its section.
        start: Its first character there.
        end: Its last character, exclusive.
        word: "Yes" or "No"; `None` if the sentence must speak for itself.
    """

    section: int
    start: int
    end: int
    word: str | None


def is_closed(question: str) -> bool:
    """Returns whether a question can be answered by yes or no; "Is it A or B?" can not.

    Example:
        >>> is_closed("Is it edible?"), is_closed("Is it edible or poisonous?"), is_closed("How edible is it?")
        (True, False, False)
    """
    return bool(_CLOSED.match(question.strip())) and not _CHOICE.search(question)


def content_of(question: str, title: str) -> frozenset[str]:
    """Returns the stems of what a yes-or-no question says about its subject."""
    asked = re.sub(r"n['\u2019]t\b", "", without_deixis(question), count=1)
    return frozenset(tokenize(asked)) - frozenset(tokenize(title))


def verdict(question: str, title: str, sections: Sequence[tuple[str, str]]) -> Verdict | None:
    """Returns the verdict of the first sentence that contains all words of a question; `None` if no sentence does.

    A sentence has the words of its label and its section's title, too, but needs one of its own. All that have the
    words must agree, without doubts ("if", "some").

    Args:
        question: The question.
        title: The article's title, whose words every sentence has.
        sections: Title and text of each section.
    """
    asked = content_of(question, title)
    found = list[Verdict]()
    for number, (heading, text) in enumerate(sections):
        for start, end, label in _statements(text):
            said = text[start:end]
            context = label | frozenset(tokenize(heading))
            if asked and asked <= context and (_YES.match(said) or _NO.match(said)):
                found.append(Verdict(number, start, end, "Yes" if _YES.match(said) else "No"))
            elif asked and (words := _together(asked, context, said)):
                word = _word(question, said, *words)
                if word or len(asked - context) > 1:  # a single word says too little of what a sentence is about
                    found.append(Verdict(number, start, end, word))
    if not found:
        return _labeled(asked, sections)
    first = found[0]
    return first if len({one.word for one in found}) == 1 else first._replace(word=None)


def _labeled(asked: frozenset[str], sections: Sequence[tuple[str, str]]) -> Verdict | None:
    """Returns the value whose label alone has all that is asked for in another form: "Edibility" for "edible"."""
    for number, (_, text) in enumerate(sections):
        for start, end, label in _statements(text):
            if asked and all(any(len(stem) > 3 and word.startswith(stem[:-1]) for word in label) for stem in asked):
                return Verdict(number, start, end, None)
    return None


def in_own_words(question: str, title: str, text: str, start: int, end: int) -> str | None:
    """Returns an answer to a yes-or-no question that is a span of a text; `None` if it is about something else.

    It is "Yes" if the span is in a labeled value with all that the question asks about, verb aside.
    """
    asked = content_of(question, title)
    verb = tokenize(without_deixis(question))[:1] if _DOES.match(question) else []
    things, span = asked - frozenset(verb), text[start:end]
    stop = text.find("\n", end)
    labeled = re.search(r": [^\n]*$", text[:start])
    value = text[labeled.start() : len(text) if stop < 0 else stop] if labeled else ""
    plain = not any(map(_DENIAL.fullmatch, _TOKEN.findall(value + question))) and not _DOUBTED.search(value)
    if things and plain and not _STRICT.search(question) and things <= frozenset(tokenize(value)):
        return "Yes"
    around = (frozenset(tokenize(text[one:other])) | label for one, other, label in _statements(text) if other >= end)
    near = next(around, frozenset(tokenize(span)))  # a span behind the last sentence
    if _YES.match(span) or _NO.match(span):
        return span
    if any(map(_DENIAL.fullmatch, _TOKEN.findall(span))):
        return span if things & near else None
    return span if things & frozenset(tokenize(span)) and len(things & near) >= min(2, len(things)) else None


def _statements(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yields start and end of each sentence or labeled value, and the stems of the label."""
    place = 0
    for line in text.split("\n"):
        label = frozenset[str]().union(*labels_of(line))
        begin = place + (line.find(": ") + 2 if label and ": " in line else 0)
        for sentence in sentences(text[begin : place + len(line)]):
            start = text.index(sentence, begin) if sentence else begin
            begin = start + len(sentence)
            yield start, begin, label
        place += len(line) + 1


def _together(asked: frozenset[str], context: frozenset[str], said: str) -> tuple[list[str], int] | None:
    """Returns a sentence's words up to the last that is asked for, and the place of the first, if they stand together.

    Hyphenated words are no others: "second-tallest" is not "tallest".
    """
    words = _TOKEN.findall(said)
    stems = ["" if "-" in word else "".join(tokenize(word)) for word in words]
    places = [place for place, stem in enumerate(stems) if stem in asked]
    if not places or not asked <= context | set(stems):
        return None
    return (words[: places[-1] + 1], places[0]) if places[-1] - places[0] < APART * len(asked) else None


def _word(question: str, said: str, words: list[str], first: int) -> str | None:
    if _DOUBTED.search(said) or _STRICT.search(question):
        return None
    if any(map(_DENIAL.fullmatch, _TOKEN.findall(question))):
        return None
    near = [bool(_DENIAL.fullmatch(word)) for word in words[max(0, first - 3) :]]
    denied = sum(near)
    return "No" if denied == 1 else None if denied or any(map(_DENIAL.fullmatch, _TOKEN.findall(said))) else "Yes"
