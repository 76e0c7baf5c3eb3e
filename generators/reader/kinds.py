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
_EXCEPT = re.compile(r"^(?:what|which|who|where|when|how)\b.*(?:\bnot\b|n['\u2019]t\b)", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:not?|never|without|except|other than|besides|lacks?|neither|nor|only|un\w+|in\w+ible|avoid\w*|bad|worst|"
    r"dis\w*like\w*|forbidden|prohibited)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
"""A question for what is not so, and words of a text that says it."""
_YEARS = re.compile(r"(?<![\d.,])(?:1\d|20)\d\d(?![\d.,]\d|\d|s|\s?(?:%|[ck]?m\b|f(?:t|eet)|people|visitors))")
_BREAK = re.compile(r"; |[.!?][\"\u201d')]* ")
_WHEN = re.compile(r"\b(?:when|dates?|years?|days?|months?|time|since|old|how)\b", re.IGNORECASE)
_DATED = re.compile(
    rf"(?<=[^\W\d_])(?:, | \(|, \()(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH} \d{{1,2}}(?:, \d{{4}})?|\d{{4}})\)?$",
    re.IGNORECASE,
)
_ONE_OF_ALL = re.compile(r"^(?:what|which)\b.*?\b(?:\w{2,}est|most|least)\b|^(?:who|where|which)\b", re.IGNORECASE)
_MEASURED = re.compile(r"\b(?:how|size|amount|number|figure|value|quantity|measures?|much|many)\b", re.IGNORECASE)
_MEASURED_LAST = re.compile(rf",? \(?\d[\d.,]*\s?{UNIT}\.?\)?$", re.IGNORECASE)
_HEDGES = re.compile(r"(?:about|around|up|to|over|under|at|least|most|more|less|than|nearly|from|\W)+", re.IGNORECASE)
_HOW = re.compile(r"\bhow (?:many )?(\w+)", re.IGNORECASE)
_AMOUNT = re.compile(
    rf"(?:[\W\d]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|to|or|{UNIT})\b)+", re.IGNORECASE
)
_MEASURE = re.compile(rf"\d|\s{UNIT}\b", re.IGNORECASE)
_SIZE = re.compile(r"\bhow (?:tall|high|wide|deep|thick|heavy|far)\b", re.IGNORECASE)


def kind_of_answer(question: str, context: str = "", whole: int = 0) -> Callable[[str, int, int], bool]:
    """Returns a function that tells whether a span of a text can be what a question asks for.

    A line must be about the years of the question, a size is a measure, and what is not so is denied.

    Args:
        question: The question.
        context: Titles, whose years every line of the text may mean.
        whole: End of the title's line, if the text begins with one, in characters: all of the text is about it.

    Example:
        >>> [kind_of_answer("How tall is it?")(text, 0, len(text)) for text in ("slowly", "3 m")]
        [False, True]
    """
    sized, excluded = _SIZE.search(question), _EXCEPT.match(question)
    years = {year for year in _YEARS.findall(question) if year not in context}

    def fits(text: str, start: int, end: int) -> bool:
        if sized and not _MEASURE.search(text[start:end]):
            return False
        begin, stop = text.rfind("\n", 0, start) + 1, (text + "\n").find("\n", end)
        line = text if end <= whole else text[begin:stop]
        if years:
            part = text if end <= whole else _sentence(line, start - begin, end - begin)
            if not any(year in (part if _YEARS.search(part) else line) for year in years):
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
    if (asked := _HOW.search(question)) and (echo := re.search(rf"\s{re.escape(asked[1].rstrip('s'))}", span, re.I)):
        return start + echo.start() if _AMOUNT.fullmatch(span[: echo.start()]) else end
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
