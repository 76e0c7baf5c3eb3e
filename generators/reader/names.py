"""Questions for what the image shows ("What is this?", "Which bridge is it?"): the article's title is the answer."""

from __future__ import annotations

import re

from generators.pointing import PLACE, THING, THIS
from retriever.lexical import labels_of, tokenize

_SHOWN = r"(?:(?:shown|pictured|depicted|displayed|seen|visible)\b ?)"
_BE = r"(?:is|are|was|were)"
_ASKED = tuple(
    re.compile(rf"(?:please |(?:can|could) you (?:please )?(?:tell me )?)?{pattern}", re.IGNORECASE)
    for pattern in (
        rf"(?:what|who)(?:['\u2019]?s| {_BE}) {THIS}(?: one)?(?: (?:called|named))?{PLACE}",
        rf"what(?:['\u2019]?s| {_BE}) {_SHOWN}?{PLACE.strip()}",
        rf"what (?:am i|are we|do (?:i|you|we)) (?:looking at|see(?:ing)?){PLACE}",
        r"what does (?:this|the) (?:photo(?:graph)?|picture|image|pic) (?:show|depict)",
        rf"(?:what(?:['\u2019]?s| is) )?(?:the |its |their )?name(?: of (?:this|that|it)(?: {THING})?)?",
        rf"what(?:['\u2019]?s| {_BE}) (?:this|that|these|those) {THING} (?:called|named)",
        rf"(?:what|how) (?:do|does) (?:you|they|we|one|people) call (?:it|this|that)(?: {THING})?",
        rf"(?:name|identify|recogni[sz]e|classify) (?:it|this|that|these)(?: {THING})?{PLACE}",
    )
)
_KIND = re.compile(
    rf"(?:what|which) (?!kind|sort|type)(?P<thing>{THING}) "
    rf"(?:{_BE} {THIS}|{_BE} {_SHOWN}|{_BE}{PLACE}|(?:do|can) (?:i|you|we) see){PLACE}"
    rf"|what(?:['\u2019]?s| {_BE}) (?:this|that|these|those) (?P<one>{THING}){PLACE}",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^(?:(?:so|and|ok(?:ay)?|hey|hi|hello|please)\b,? ?)+", re.IGNORECASE)
_ANYTHING = frozenset(tokenize("thing place object item building structure"))
_DESCRIBED = re.compile(
    r"(?:please )?(?:tell me (?:more )?about|describe|explain|what about|(?:some )?info(?:rmation)? (?:about|on))"
    rf"(?: {THIS}(?: {THING})?)?{PLACE}",
    re.IGNORECASE,
)
_FIRST = re.compile(r"[^\n]*?(?:[a-z\d)][.!?](?=\s+[A-Z\u201c\"(])|(?=\n)|$)")


def asks_name(question: str, title: str, text: str) -> bool:
    """Returns whether a question asks what the image shows.

    "Which bridge is this?" does if the thing is called a bridge in the title or at the beginning of a section: "Which
    color is this?" asks for something else.

    Args:
        question: The question.
        title: The article's title.
        text: The section.
    """
    asked = _OPENING.sub("", " ".join(question.split()).rstrip(" ?.!"))
    if any(pattern.fullmatch(asked) for pattern in _ASKED):
        return True
    found = _KIND.fullmatch(asked)
    things = frozenset(tokenize(found["thing"] or found["one"])) if found else frozenset()
    first = first_sentence(text)
    if any(labels_of(first)):  # "Brand: Apple" calls nothing a brand
        first = first.partition(": ")[2]
    return bool(things) and things <= _ANYTHING | frozenset(tokenize(f"{title} {first}"))


def asks_description(question: str) -> bool:
    """Returns whether a question asks for no more than to be told about what the image shows."""
    return _DESCRIBED.fullmatch(" ".join(question.split()).rstrip(" ?.!")) is not None


def first_sentence(text: str) -> str:
    """Returns the first sentence of a text.

    Example:
        >>> first_sentence("It is 3.5 m tall (in all). It was built late.")
        'It is 3.5 m tall (in all).'
    """
    found = _FIRST.match(text)
    return found[0] if found else ""
