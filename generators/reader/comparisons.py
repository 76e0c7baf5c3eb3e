"""Yes-or-no questions that compare with a number: the open question behind them, and what its answer means."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from generators.reader.closed import is_closed

_UNITS = {  # spellings: (dimension, how many of the dimension's base unit)
    "mm|millimet(?:er|re)s?": ("length", 0.001),
    "cm|centimet(?:er|re)s?": ("length", 0.01),
    "m|met(?:er|re)s?": ("length", 1.0),
    "kms?|kilomet(?:er|re)s?": ("length", 1000.0),
    "in|inch(?:es)?": ("length", 0.0254),
    "ft|feet|foot": ("length", 0.3048),
    "mi|miles?": ("length", 1609.344),
    "g|grams?": ("mass", 0.001),
    "kgs?|kilos?|kilograms?": ("mass", 1.0),
    "tonnes?|tons?": ("mass", 1000.0),
    "lbs?|pounds?": ("mass", 0.45359237),
    "km²|square kilomet(?:er|re)s": ("area", 1.0),
    "square miles": ("area", 2.58998811),
    "l|lit(?:er|re)s?": ("volume", 1.0),
    "minutes?|min": ("time", 60.0),
    "hours?|h": ("time", 3600.0),
    "days?": ("time", 86400.0),
    "months?": ("time", 2629746.0),
    "years?": ("time", 31556952.0),
}
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_QUANTITY = re.compile(
    rf"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?:[\s-]*({'|'.join(_SCALES)}))?(?:[\s-]*({'|'.join(_UNITS)})(?![\w²³/]))?(?!\w)",
    re.I,
)
_TO = re.compile(r"\s?(?:-|\u2013|\u2014|to|or)\s?", re.IGNORECASE)
_COMPARISON = re.compile(
    r"^(is|are|was|were|do|does|did|has|have|can|could|will) (.*?)\b"
    r"(?:(\w+er|more|less) than|(over|above|under|below|at least|at most|exceed(?:ing)?|before|after|since|prior to)) "
    r"(?:the year )?(?=\d)(.*)$",
    re.IGNORECASE,
)
_LESS = {
    *("less", "fewer", "under", "below", "at most", "before", "prior to", "shorter", "smaller", "lower", "lighter"),
    *("younger", "newer", "narrower", "thinner", "slower", "cheaper"),
}
_BASES = {
    "shorter": "long", "smaller": "large", "lower": "high", "lighter": "heavy", "younger": "old", "newer": "old",
    "narrower": "wide", "thinner": "thick", "slower": "fast", "cheaper": "much", "larger": "large", "wider": "wide",
    "bigger": "big",
}  # fmt: skip
_MEASURES = re.compile(r"(?:tall|high|long|wide|deep|thick|old|heavy|big|large)\b|in (\w+)", re.IGNORECASE)
_AGE = re.compile(r"\b(?:older|younger|newer) than\b|\byears? old\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:1\d|20)\d\d(?!\d)")
_AT_LEAST = re.compile(r"\b(?:over|more than|at least|above|from|\+)\s*$", re.IGNORECASE)
_AT_MOST = re.compile(r"\b(?:under|less than|fewer than|up to|at most|below|nearly|almost)\s*$", re.IGNORECASE)


class Quantity(NamedTuple):
    """A number in a text, in the base unit of its dimension (`None` without a known unit)."""

    value: float
    dimension: str | None
    start: int
    end: int


class Comparison(NamedTuple):
    """A comparison with a number.

    Attributes:
        question: The open question: "How tall is it?" for "Is it taller than 300 m?".
        less: Whether the question is for less than the bound.
        equal: Whether the bound itself counts.
        bound: What is compared with.
        kind: "year", "age" or "amount".
    """

    question: str
    less: bool
    equal: bool
    bound: Quantity
    kind: str


def quantities(text: str) -> list[Quantity]:
    """Returns the quantities of a text; the first of "5 to 7 m" gets the unit of the second.

    Example:
        >>> [(number.value, number.dimension) for number in quantities("5 to 7 km, 1.2 million people")]
        [(5000.0, 'length'), (7000.0, 'length'), (1200000.0, None)]
    """
    matches = list(_QUANTITY.finditer(text))
    units = [match[3] for match in matches]
    for i in range(len(matches) - 2, -1, -1):
        if _TO.fullmatch(text, matches[i].end(), matches[i + 1].start()):
            units[i] = units[i] or units[i + 1]
    numbers = list[Quantity]()
    for match, unit in zip(matches, units, strict=True):
        known = (row for names, row in _UNITS.items() if unit and re.fullmatch(names, unit, re.IGNORECASE))
        dimension, factor = next(known, (None, 1.0))
        value = float(match[1].replace(",", "")) * _SCALES.get((match[2] or "").lower(), 1.0)
        numbers.append(Quantity(value * factor, dimension, *match.span()))
    return numbers


_WHICH = re.compile(
    rf"(?:which|what|who)\b.*? (?:(is|are|was|were) (?:the )?({'|'.join(_BASES)}|taller|longer|higher|deeper|thicker"
    r"|older|heavier)(?: \w+)?|(has|have) (more|fewer|less) ([\w ]+))",
    re.IGNORECASE,
)


def measure_of(question: str) -> str:
    """Returns the question for what a question compares several things by; any other question as it is.

    Example:
        >>> [measure_of(text) for text in ("Which country is larger?", "Which has more people?", "What is this?")]
        ['How large is it?', 'How many people has it?', 'What is this?']
    """
    match = _WHICH.fullmatch(" ".join(question.split()).rstrip(" ?.!"))
    if match is None:
        return question
    verb, how = (match[1] or match[3]).lower(), (match[2] or match[4]).lower()
    return _open(verb, "it", how, match[5] or "", None)


def comparison_of(question: str) -> Comparison | None:
    """Returns the comparison that a question asks for, or `None`.

    Example:
        >>> [comparison_of(text).question for text in ("Is it taller than 9 m?", "Are there over 3 doors?")]
        ['How tall is it?', 'How many doors are there?']
    """
    match = _COMPARISON.match(" ".join(question.split()).rstrip(" ?.!"))
    if match is None or not is_closed(question):
        return None
    verb, subject, adjective, other, rest = match.groups()
    how, verb, subject = (adjective or other).lower(), verb.lower(), subject.strip()
    bound = next(iter(quantities(rest)), None)
    if bound is None or bound.start:
        return None
    after, less, equal = rest[bound.end :].strip(), how in _LESS, how in ("at least", "at most", "since")
    if how in ("before", "after", "since", "prior to"):
        return None if after or bound.dimension else Comparison(f"When {verb} {subject}?", less, equal, bound, "year")
    kind = "age" if _AGE.search(question) and bound.dimension in ("time", None) else "amount"
    return Comparison(_open(verb, subject, how, after, bound.dimension), less, equal, bound, kind)


def _open(verb: str, subject: str, how: str, after: str, dimension: str | None) -> str:
    if measure := _MEASURES.match(after):
        return f"What is the {measure[1]} of {subject}?" if measure[1] else f"How {measure[0]} {verb} {subject}?"
    if how.endswith("er") and how not in ("fewer", "over", "under"):
        stem = re.sub(r"([bdgmnt])\1$", r"\1", re.sub(r"ier$", "yer", how)[:-2])
        return f"How {_BASES.get(how, stem)} {verb} {subject}{' ' + after if after else ''}?"
    if after:
        return f"How many {after} {verb} {subject}?" if subject else f"How many {after}?"
    return f"{'How much' if dimension or verb not in ('is', 'are', 'was', 'were') else 'What'} {verb} {subject}?"


def is_true(comparison: Comparison, text: str, start: int, end: int) -> bool | None:
    """Returns whether a span that answers the open question makes the comparison true, `None` if unclear."""
    bound, span = comparison.bound, text[start:end]
    years = [float(year) for year in _YEAR.findall(span)]
    numbers = quantities(span)
    if comparison.kind == "year":
        values = years
    elif comparison.kind == "age" and years:
        values = [date.today().year - year for year in years]
        age = bound.value / (_UNITS["years?"][1] if bound.dimension else 1)
        bound = bound._replace(value=age, dimension=None)
        if any(abs(value - age) <= 1 for value in values):
            return None
    elif not numbers or numbers[0].dimension != bound.dimension:
        return None
    else:
        first, *others = numbers
        values = [first.value]
        if others and _TO.fullmatch(span, first.end, others[0].start):
            values.append(others[0].value)
        elif others and not span[first.end : others[0].start].strip() and others[0].dimension == first.dimension:
            values = [first.value + others[0].value]  # "6 ft 2 in"
    verdicts = {
        (comparison.equal and value == bound.value) or (value < bound.value if comparison.less else value > bound.value)
        for value in values[:2]
    }
    if len(verdicts) != 1:
        return None
    [verdict] = verdicts
    before = text[max(0, start - 12) : start] + re.split(r"\d", span)[0]
    above = verdict != comparison.less
    unsure = _AT_MOST.search(before) if above else "+" in span or _AT_LEAST.search(before)
    return None if unsure else verdict
