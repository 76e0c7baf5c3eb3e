"""Kinds of answers: whether a span can be what a question asks for, and which part of it is."""

from __future__ import annotations

import re
from collections.abc import Callable

UNIT = (
    r"(?:hundred|thousand|million|billion|trillion|dozen|sq(?:uare)? \w+|cubic \w+|k?m[\u00b2\u00b3]?|[cmµ]m|mi|miles?|"
    r"(?:kilo|centi|milli)?(?:met(?:er|re)|gram|lit(?:er|re))s?|ft|feet|foot|in(?=\W|$)(?! \w)|inch(?:es)?|yards?|"
    r"k?g|mg|lbs?|pounds?|oz|ounces?|t|tons?|tonnes?|ha|hectares?|acres?|[mcd]?l|years?|months?|weeks?|days?|hours?|h|"
    r"minutes?|mins?|seconds?|s|percent|mph|km/h|rpm|degrees?|°?[cf]|[gmk]?wh?|v|hz|[kmgt]b|[€£$¥₹]|dollars?|euros?)"
)
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_NAMED = re.compile(r"\b(?:who|whom|whose|where)\b", re.IGNORECASE)
_FIGURES = re.compile(rf"[\W\d]*\d[\W\d]*(?:(?:{UNIT}|{_MONTH})[\W\d]*)?", re.IGNORECASE)
_EXCEPT = re.compile(r"^(?:what|which|who|where|when|how)\b.*(?:\bnot\b|n['\u2019]t\b)", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:not?|never|without|except|other than|besides|lacks?|neither|nor|only|un\w+|in\w+ible|avoid\w*|bad|worst|"
    r"dis\w*like\w*|forbidden|prohibited)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
"""A question for what is not so, and words of a text that says it."""
_YEARS = re.compile(r"(?<![\d.,])(?:1\d|20)\d\d(?![\d.,]\d|\d|s|\s?(?:%|[ck]?m\b|f(?:t|eet)|people|visitors))")
_PERIOD = re.compile(r"(?<!\d)((?:1\d|20)\d\d)\s?(?:-|\u2013|to|until|and)\s?((?:1\d|20)\d\d|\d\d)(?!\d)")
_BREAK = re.compile(r"; |[.!?][\"\u201d')]* ")
_WHEN = re.compile(r"\b(?:when|dates?|years?|days?|months?|time|since|old|how)\b", re.IGNORECASE)
_DATED = re.compile(
    rf"(?<=[^\W\d_])(?:, | \(|, \()(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, \d{{4}})?|\d{{4}})\)?$",
    re.I,
)
_ONE_OF_ALL = re.compile(r"^(?:what|which)\b.*?\b(?:\w{2,}est|most|least)\b|^(?:who|where|which)\b", re.IGNORECASE)
_MEASURED = re.compile(r"\b(?:how|size|amount|number|figure|value|quantity|measures?|much|many)\b", re.IGNORECASE)
_MEASURED_LAST = re.compile(rf",? \(?\d[\d.,]*\s?{UNIT}\.?\)?$", re.IGNORECASE)
_HEDGES = re.compile(r"(?:about|around|up|to|over|under|at|least|most|more|less|than|nearly|from|\W)+", re.IGNORECASE)
_COUNTED = re.compile(r"\W?(\d[\d.,]*)\s(\w+)")


def kind_of_answer(question: str, context: str = "") -> Callable[[str, int, int], bool]:
    """Returns a function that tells whether a span of a text can be what a question asks for.

    Years of the question must be those of the span's sentence or line; figures name nobody; what is not so is denied.

    Args:
        question: The question.
        context: Titles, whose years every line of the text may mean.

    Example:
        >>> [kind_of_answer("Who built it?")(text, 0, len(text)) for text in ("1958", "Ida Berg")]
        [False, True]
    """
    named, excluded = _NAMED.match(question), _EXCEPT.match(question)
    years = {int(year) for year in _YEARS.findall(question) if year not in context}

    def fits(text: str, start: int, end: int) -> bool:
        if named and _FIGURES.fullmatch(text[start:end]):
            return False
        begin, stop = text.rfind("\n", 0, start) + 1, (text + "\n").find("\n", end)
        line = text[begin:stop]
        if years:
            part = _sentence(line, start - begin, end - begin)
            if not any(_is_about(part if _YEARS.search(part) else line, year) for year in years):
                return False
        return not excluded or _DENIED.search(line) is not None

    return fits


def core(text: str, start: int, end: int, question: str) -> int:
    """Returns the end of a span without what follows the answer: a name's date or measure, and the thing counted.

    Example:
        >>> text = "Mount Gimie 948 m"
        >>> text[:core(text, 0, len(text), "What is the highest point?")]
        'Mount Gimie'
    """
    span = text[start:end]
    if (counted := _COUNTED.match(span)) and re.search(rf"\bhow many {re.escape(counted[2])}", question, re.IGNORECASE):
        return start + counted.end(1)
    unasked = [
        *([] if _WHEN.search(question) else [_DATED.search(span)]),
        *([_MEASURED_LAST.search(span)] if _ONE_OF_ALL.search(question) and not _MEASURED.search(question) else []),
    ]
    for last in filter(None, unasked):
        name = span[: last.start()]
        if not re.search(r"\d", name) and not _HEDGES.fullmatch(name) and not re.fullmatch(_MONTH, name, re.IGNORECASE):
            return start + last.start()
    return end


def _sentence(line: str, start: int, end: int) -> str:
    """Returns the sentence, or the part before or behind a semicolon, that a span of a line is in."""
    breaks = [mark.span() for mark in _BREAK.finditer(line)]
    begin = max((last for _, last in breaks if last <= start), default=0)
    return line[begin : min((first for first, _ in breaks if first >= end), default=len(line))]


def _is_about(line: str, year: int) -> bool:
    """Returns whether a line names a year, or a period with it: "1948-52"."""
    periods = ((int(first), int(first[: 4 - len(last)] + last)) for first, last in _PERIOD.findall(line))
    return re.search(rf"(?<!\d){year}(?!\d)", line) is not None or any(a <= year <= b for a, b in periods)
