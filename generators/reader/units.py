"""Quantities in a text, their units, and their values in another unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SPELLINGS = {  # unit: (dimension, how many of the dimension's base unit, spellings)
    "mm": ("length", 0.001, "mm|millimet(?:er|re)s?"),
    "cm": ("length", 0.01, "cm|centimet(?:er|re)s?"),
    "m": ("length", 1.0, "m|met(?:er|re)s?"),
    "km": ("length", 1000.0, "kms?|kilomet(?:er|re)s?"),
    "in": ("length", 0.0254, "in(?! \\w)|inch(?:es)?"),
    "ft": ("length", 0.3048, "ft|feet|foot"),
    "yd": ("length", 0.9144, "yds?|yards?"),
    "mi": ("length", 1609.344, "mi|miles?"),
    "g": ("mass", 0.001, "g|gr|grams?"),
    "kg": ("mass", 1.0, "kgs?|kilos?|kilograms?"),
    "t": ("mass", 1000.0, "tonnes?|metric tons?"),
    "ton": ("tons", 1.0, "tons?"),
    "lb": ("mass", 0.45359237, "lbs?|pounds?"),
    "oz": ("mass", 0.028349523, "oz|ounces?"),
    "m²": ("area", 1.0, r"m²|m2|sq(?:uare|\.)? ?m(?:et(?:er|re)s?)?"),
    "km²": ("area", 1e6, r"km²|km2|sq(?:uare|\.)? ?(?:km|kilomet(?:er|re)s?)"),
    "ft²": ("area", 0.09290304, r"sq(?:uare|\.)? ?(?:ft|feet|foot)"),
    "mi²": ("area", 2589988.11, r"sq(?:uare|\.)? ?(?:mi|miles?)"),
    "ha": ("area", 10000.0, "ha|hectares?"),
    "acre": ("area", 4046.8564, "acres?"),
    "ml": ("volume", 0.001, "ml|millilit(?:er|re)s?"),
    "cl": ("volume", 0.01, "cl|centilit(?:er|re)s?"),
    "l": ("volume", 1.0, "l|lit(?:er|re)s?"),
    "km/h": ("speed", 1.0, r"km/h|kph|km per hour|kilomet(?:er|re)s (?:per|an) hour"),
    "mph": ("speed", 1.609344, r"mph|miles (?:per|an) hour"),
    "s": ("time", 1.0, "secs?|seconds?"),
    "min": ("time", 60.0, "mins?|minutes?"),
    "h": ("time", 3600.0, "h|hrs?|hours?"),
    "day": ("time", 86400.0, "days?"),
    "week": ("time", 604800.0, "weeks?"),
    "month": ("time", 2629746.0, "months?"),
    "year": ("time", 31556952.0, "years?|yrs?"),
    "°C": ("temperature", 1.0, r"°\s?C|(?:degrees )?celsius|degrees C"),
    "°F": ("temperature", 1.0, r"°\s?F|(?:degrees )?fahrenheit|degrees F"),
}
_CASES = [(unit, re.compile(rf"(?:{words})(?![\w²³/])", re.IGNORECASE)) for unit, (_, _, words) in _SPELLINGS.items()]
_ANY = "|".join(f"(?:{words})" for _, _, words in sorted(_SPELLINGS.values(), key=lambda one: -len(one[2])))
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}
_WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
NUMBER_WORD = rf"(?:\d[\d,]*(?:\.\d+)?|{'|'.join(_WORDS)})"
_QUANTITY = re.compile(
    rf"(?<![\w.,])({NUMBER_WORD})(?:[\s-]*({'|'.join(_SCALES)}))?(?:[\s-]*({_ANY})(?![\w²³/]))?(?!\w)", re.IGNORECASE
)
_TO = re.compile(r"\s?(?:-|\u2013|\u2014|to|or)\s?", re.IGNORECASE)
_REST = re.compile(r",? ?(?:and )?")
_ASKED = re.compile(
    rf"\b(?:in|how many) ({_ANY})(?![\w²³/])"
    r"(?=\W*$|,|\s+(?:long|tall|high|wide|deep|thick|across|is|are|was|were|do|does|did|in)\b)",
    re.IGNORECASE,
)
_PARTS = re.compile(r"\bhow many (?:feet|foot|yards?|pounds?|miles?) (?:do|does|did|is|are|was|were)\b", re.IGNORECASE)
"""Feet, yards and pounds may be things, too."""


class Quantity(NamedTuple):
    """A number in a text, with its unit (`None` without one or with an unknown one)."""

    value: float
    unit: str | None
    start: int
    end: int


def unit_of(text: str) -> str | None:
    """Returns the unit that a text is the name of, such as "ft" for "feet"."""
    return next((unit for unit, words in _CASES if words.fullmatch(text.strip())), None)


def quantities(text: str, start: int = 0, end: int | None = None) -> list[Quantity]:
    """Returns the quantities of a part of a text; the first of "5 to 7 m" gets the unit of the second.

    Example:
        >>> [(one.value, one.unit) for one in quantities("5 to 7 metres, 1.2 million people")]
        [(5.0, 'm'), (7.0, 'm'), (1200000.0, None)]
    """
    found = list(_found(text, start, len(text) if end is None else end))
    for number in range(len(found) - 2, -1, -1):
        one, other = found[number : number + 2]
        if one.unit is None and _TO.fullmatch(text, one.end, other.start):
            found[number] = one._replace(unit=other.unit)
    return found


def _found(text: str, start: int, end: int) -> Iterator[Quantity]:
    for match in _QUANTITY.finditer(text, start, end):
        number, scale, unit = match.groups()
        value = float(_WORDS.index(number.lower())) if number[0].isalpha() else float(number.replace(",", ""))
        yield Quantity(value * _SCALES.get((scale or "").lower(), 1.0), unit and unit_of(unit), *match.span())


def asked_unit(question: str) -> str | None:
    """Returns the words of the unit in which a question wants its answer: "feet" of "How tall is it in feet?"."""
    found = _ASKED.search(question)
    return None if found is None or _PARTS.search(question) else found[1]


def comparable(one: str | None, other: str | None) -> bool:
    """Returns whether values in two units can be compared."""
    return one == other or (one is not None and other is not None and _SPELLINGS[one][0] == _SPELLINGS[other][0])


def converted(value: float, unit: str, other: str) -> float:
    """Returns a value in another unit of the same dimension."""
    if _SPELLINGS[unit][0] == "temperature" and unit != other:
        return value * 9 / 5 + 32 if other == "°F" else (value - 32) * 5 / 9
    return value * _SPELLINGS[unit][1] / _SPELLINGS[other][1]


def measured(text: str, start: int, end: int) -> list[Quantity]:
    """Returns the quantity of a span, or both ends of a range; a label may name their unit ("Length in meters: 12")."""
    found = quantities(text, start, end)
    label = re.search(rf"\b({_ANY})\W*:\s*$", text[text.rfind("\n", 0, start) + 1 : start], re.IGNORECASE)
    named = unit_of(label[1]) if label else None
    ranged = len(found) > 1 and _TO.fullmatch(text, found[0].end, found[1].start)
    if len(found) > 1 and (one := found[0]).unit and _REST.fullmatch(text, one.end, found[1].start):
        more = found[1]
        if comparable(more.unit, one.unit) and converted(1, one.unit, more.unit or one.unit) > 1:  # "6 ft 2 in"
            value = one.value + converted(more.value, more.unit or one.unit, one.unit)
            return [one._replace(value=value, end=more.end)]
    return [one._replace(unit=one.unit or named) for one in found[: 2 if ranged else 1]]


def in_unit(text: str, start: int, end: int, words: str) -> tuple[str, int, int] | None:
    """Returns an answer in the unit that the question names, and the span that it is from.

    The text's own words come first ("1,092 ft" behind "332.9 m"); otherwise, the value is converted, with as many
    figures as it has. Without a known unit, an answer stays as it is.

    Args:
        text: The section.
        start: First character of the span.
        end: Its last character, exclusive.
        words: The unit in the question's words.

    Returns:
        `None` if the answer's unit measures something else.
    """
    unit, own = unit_of(words), measured(text, start, end)
    if unit is None or not own or own[0].unit in (None, unit):
        return text[start:end], start, end
    line = text.find("\n", end)
    for one in quantities(text, start, min(len(text) if line < 0 else line, end + 60)):
        if one.unit == unit and not re.search(r"[.,;] [^\d]{12,}", text[end : one.start]):
            stop = measured(text, one.start, one.end + 16)[-1].end
            return text[one.start : stop], one.start, stop
    if not all(comparable(one.unit, unit) for one in own):
        return None
    values = [_rounded(converted(one.value, one.unit or unit, unit), text[one.start : one.end]) for one in own]
    return "\u2013".join(values) + f" {words}", start, end


def _rounded(value: float, source: str) -> str:
    """Returns a number with as many significant figures as its source, at least two."""
    figures = max(2, len(re.sub(r"\D", "", source).lstrip("0").rstrip("0") or "0"))
    rounded = float(f"{value:.{figures}g}")
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,}"
