"""Yes-or-no questions that compare with a number: the open question behind them, and what its answer means."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

from generators.reader.closed import is_closed
from generators.reader.units import NUMBER_WORD, Quantity, comparable, converted, measured, quantities

_COMPARISON = re.compile(
    r"^(is|are|was|were|do|does|did|has|have|can|could|will) (.*?)\b"
    rf"(?:(\w+er|more|less) than|(over|above|under|below|at least|at most|exceed(?:ing)?|before|after|since|prior to)) "
    rf"((?:the year )?(?={NUMBER_WORD}\b).*)$",
    re.IGNORECASE,
)
_LESS = {
    *("less", "fewer", "under", "below", "at most", "before", "prior to", "shorter", "smaller", "lower", "lighter"),
    *("younger", "newer", "narrower", "thinner", "slower", "cheaper", "colder", "cooler"),
}
_BASES = {
    "shorter": "long", "smaller": "large", "lower": "high", "lighter": "heavy", "younger": "old", "newer": "old",
    "narrower": "wide", "thinner": "thick", "slower": "fast", "cheaper": "much", "larger": "large", "wider": "wide",
    "bigger": "big", "hotter": "hot", "later": "late",
}  # fmt: skip
_MEASURES = re.compile(r"(?:tall|high|long|wide|deep|thick|old|heavy|big|large)\b|in (\w+)", re.IGNORECASE)
_AGE = re.compile(r"\b(?:older|younger|newer) than\b|\byears? old\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(?:1\d|20)\d\d(?!\d)")
_AT_LEAST = re.compile(r"\b(?:over|more than|at least|above|from|\+)\s*$", re.IGNORECASE)
_AT_MOST = re.compile(r"\b(?:under|less than|fewer than|up to|at most|below|nearly|almost)\s*$", re.IGNORECASE)


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


def comparison_of(question: str) -> Comparison | None:
    """Returns the comparison that a question asks for, or `None`.

    Example:
        >>> [comparison_of(asked).question for asked in ("Is it taller than 9 m?", "Are there over 3 doors?")]
        ['How tall is it?', 'How many doors are there?']
    """
    found = _COMPARISON.match(" ".join(question.split()).rstrip(" ?.!"))
    if found is None or not is_closed(question):
        return None
    verb, subject, adjective, other, rest = found.groups()
    how = (adjective or other).lower()
    bound = next(iter(quantities(rest)), None)
    if bound is None or bound.start > len("the year "):
        return None
    after = rest[bound.end :].strip()
    less, equal = how in _LESS, how in ("at least", "at most", "since")
    if how in ("before", "after", "since", "prior to"):
        if not _YEAR.fullmatch(rest[bound.start : bound.end]) or after:
            return None
        return Comparison(f"When {verb.lower()} {subject.strip()}?", less, equal, bound, "year")
    kind = "age" if _AGE.search(question) and bound.unit in ("year", None) else "amount"
    return Comparison(_open(verb.lower(), subject.strip(), how, after, bound.unit), less, equal, bound, kind)


def _open(verb: str, subject: str, how: str, after: str, unit: str | None) -> str:
    measure = _MEASURES.match(after)
    if measure:
        asked = f"What is the {measure[1]} of" if measure[1] else f"How {measure[0]} {verb}"
        return f"{asked} {subject}?"
    if how.endswith("er") and how not in ("greater", "fewer", "over", "under"):
        stem = re.sub(r"([bdgmnt])\1$", r"\1", re.sub(r"ier$", "yer", how)[:-2])
        return f"How {_BASES.get(how, stem)} {verb} {subject}{' ' + after if after else ''}?"
    if not after:
        much = "How much" if unit or verb not in ("is", "are", "was", "were") else "What"
        return f"{much} {verb} {subject}?"
    if not subject:
        return f"How many {after}?"
    return f"How many {after} {verb} {subject}?"


def is_true(comparison: Comparison, text: str, start: int, end: int) -> bool | None:
    """Returns whether a span that answers the open question makes the comparison true, `None` if unclear."""
    bound, span = comparison.bound, text[start:end]
    years = [float(year) for year in _YEAR.findall(span)]
    if comparison.kind == "year":
        values = years
    elif comparison.kind == "age" and years:
        values = [date.today().year - year for year in years]
        if any(abs(value - bound.value) <= 1 for value in values):
            return None
    else:
        found = measured(text, start, end)
        if bound.unit and not all(comparable(one.unit, bound.unit) for one in found):
            return None
        values = [
            converted(one.value, one.unit or bound.unit, bound.unit) if bound.unit else one.value for one in found
        ]
    if not values:
        return None
    verdicts = {_holds(value, comparison) for value in values[:2]}
    if len(verdicts) > 1:
        return None
    [verdict] = verdicts
    before = text[max(0, start - 12) : start] + re.split(r"\d", span)[0]
    above = verdict != comparison.less
    unsure = _AT_MOST.search(before) if above else "+" in span or _AT_LEAST.search(before)
    return None if unsure else verdict


def _holds(value: float, comparison: Comparison) -> bool:
    bound = comparison.bound.value
    return (comparison.equal and value == bound) or (value < bound if comparison.less else value > bound)
