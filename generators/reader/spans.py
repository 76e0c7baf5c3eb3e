"""Spans of a text that can be answers: numbers with their units, dates, quotations and names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple


class Span(NamedTuple):
    """Characters `start` to `end` of the evidence."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its unit.

    Attributes:
        span: The figure alone.
        full: The figure with its multiplier ("million") and unit.
        value: The value, multiplier included, in `unit`.
        unit: A key of `UNITS`, or "".
        year: The year it applies to ("3.9% (2024 est.)"), or "".
        enclosed: True inside parentheses.
    """

    span: Span
    full: Span
    value: float
    unit: str
    year: str
    enclosed: bool


UNITS = {  # name -> (dimension, size in the dimension's base unit, pattern of its spellings)
    "sq km": ("area", 1e6, r"(?:sq\.?|square) ?(?:km|kilomet(?:er|re)s?)|km²|km2|km\^2"),
    "sq mi": ("area", 2589988.0, r"sq\.? ?mi(?:les?)?|square miles?|mi²"),
    "sq m": ("area", 1.0, r"sq\.? ?m|square met(?:er|re)s?|m²|m2"),
    "ha": ("area", 1e4, r"hectares?|ha"),
    "acre": ("area", 4046.86, r"acres?"),
    "km": ("length", 1000.0, r"km|kilomet(?:er|re)s?"),
    "mi": ("length", 1609.344, r"miles?|mi"),
    "nm": ("length", 1852.0, r"nm|nautical miles?"),
    "cm": ("length", 0.01, r"cm|centimet(?:er|re)s?"),
    "mm": ("length", 0.001, r"mm|millimet(?:er|re)s?"),
    "ft": ("length", 0.3048, r"ft|feet|foot"),
    "in": ("length", 0.0254, r"inch(?:es)?"),
    "m": ("length", 1.0, r"m|met(?:er|re)s?"),
    "kg": ("mass", 1000.0, r"kg|kilos?|kilograms?"),
    "mg": ("mass", 0.001, r"mg|milligrams?"),
    "µg": ("mass", 1e-6, r"µg|ug|mi[ck]rograms?"),
    "lb": ("mass", 453.592, r"lbs?|pounds?"),
    "t": ("mass", 1e6, r"tons?|tonnes?"),
    "g": ("mass", 1.0, r"g|grams?|gr"),
    "l": ("volume", 1.0, r"l|lit(?:er|re)s?"),
    "dl": ("volume", 0.1, r"dl|decilit(?:er|re)s?"),
    "ml": ("volume", 0.001, r"ml|millilit(?:er|re)s?"),
    "kcal": ("energy", 4.184, r"kcal|kilo[ck]alor(?:ies?|i)|calories"),
    "kJ": ("energy", 1.0, r"kj|kilojoules?"),
    "%": ("share", 1.0, r"%|percent|per cent|percentage"),
    "year": ("time", 1.0, r"years?(?: old)?|yrs?"),
    "month": ("time", 1 / 12, r"months?"),
    "day": ("time", 1 / 365.25, r"days?"),
    "people": ("count", 1.0, r"people|persons?|inhabitants|residents|citizens"),
}
_MULTIPLIERS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_UNIT = "|".join(f"(?P<u{i}>{pattern})" for i, (_, _, pattern) in enumerate(UNITS.values()))
_UNIT_NAMES = tuple(UNITS)
UNIT = re.compile(rf"(?:{_UNIT})(?![\w²])", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.,])[-\u2212]?(?P<figure>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?)"
    r"(?![\d]|(?:st|nd|rd|th)\b)(?:\s?(?P<multiplier>thousand|million|billion|trillion)\b)?"
)
_RANGE = re.compile(r"\s*(?:-|\u2013|to|or|and|out of|of)(?: the)?(?: previous| last| past| preceding| next)?\s*")
_YEAR_AFTER = re.compile(r"[^;\n()]{0,4}\((?:[^()\d]{0,12})?((?:1[5-9]|20)\d\d)\b|\s+in ((?:1[5-9]|20)\d\d)\b")
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
YEAR = re.compile(r"(?<![\d,.])(?:c\. ?)?(?:1\d{3}|20\d{2})s?(?![\d,]|\.\d)")
DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? \d{{4}})?"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:, ?\d{{4}})?\b"
    rf"|\b{_MONTH} \d{{4}}\b|\b\d{{4}}-\d{{2}}-\d{{2}}\b|{YEAR.pattern}"
)
QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{1,120})[\"”“»]")
_LINKS = r"of|the|de|du|des|da|do|dos|del|della|di|la|le|las|los|el|al|and|von|van|der|y|e|i|ibn|bin"
NAME = re.compile(
    rf"(?<![\w])[A-ZÀ-ÞĀ-Ž][\w'\u2019.-]*(?:(?: (?:{_LINKS})){{0,2}} [A-ZÀ-ÞĀ-Ž][\w'\u2019-]*)*(?: \d{{1,3}}\b)?"
    r"|(?<!\w)\.[a-z]{2,3}\b|(?<!\w)\+\d[\d-]{0,6}(?!\w)"
)


def strip(text: str, span: Span, letters: str = " \t\r\n") -> Span:
    """Trims `letters` from both ends of a span."""
    start, end = span
    while start < end and text[start] in letters:
        start += 1
    while end > start and text[end - 1] in letters:
        end -= 1
    return Span(start, end)


def unit_at(text: str, position: int) -> tuple[str, int]:
    """Returns the unit at `position` and its end, ("", position) without one."""
    match = UNIT.match(text, position)
    if not match or match.lastgroup is None:
        return "", position
    return _UNIT_NAMES[int(match.lastgroup[1:])], match.end()


def numbers(text: str, span: Span) -> list[Number]:
    """Returns the numbers within a span, in order; a year in parentheses belongs to the number before it."""
    found = []
    for match in _NUMBER.finditer(text, span.start, span.end):
        figure = match["figure"]
        value = float(
            figure.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", figure) else figure.replace(",", ".")
        )
        value *= _MULTIPLIERS.get(match["multiplier"] or "", 1.0) * (-1 if match[0][0] in "-\u2212" else 1)
        position = match.end() + (text[match.end() : match.end() + 1] == " ")
        unit, end = unit_at(text, position)
        year = _YEAR_AFTER.match(text, end if unit else match.end())
        inside = text.count("(", span.start, match.start()) > text.count(")", span.start, match.start())
        found.append(
            Number(
                Span(*match.span()),
                Span(match.start(), end if unit else match.end()),
                value,
                unit,
                (year[1] or year[2]) if year else "",
                inside,
            )
        )
    for i in range(len(found) - 2, -1, -1):  # "4 out of the previous 7 years": both are years
        between = text[found[i].full.end : found[i + 1].span.start]
        if not found[i].unit and _RANGE.fullmatch(between):
            found[i] = replace(found[i], unit=found[i + 1].unit)
    return found


_CUTS = re.compile(
    r";|\n|\s+note\s*[:-]|\s+[-\u2013]\s+(?=\d)|\s*,\s*(?:ca\.?\s*|about\s+)?(?=\d)"
    r"|,\s+(?=(?-i:[a-z]+ed|usually|the (?:first|second|third|fourth|last))\b)"
    rf"|,\s+(?={_MONTH} \d)"
    rf"|(?<=\S)\s+(?=[-\u2212]?\d[\d,.]*\s*(?:{'|'.join(unit[2] for unit in UNITS.values())})(?![\w²]))"
    r"|(?<=[^\W\d_]{3})\.(?=\s|$)|(?<=\))\.(?=\s|$)|\s+(?:as of|since)\s+(?=\d)",
    re.IGNORECASE,
)
_ROLES = re.compile(r"^[^();\n]+\([^()]+\)(?:\s*[;,]\s*(?:and\s+)?[^();,\n]+\([^()]+\))+")


def head(text: str, span: Span) -> Span:
    """Returns the short answer at the start of a value: "Emi Koussi" of "Emi Koussi 3,445 m"."""
    span = strip(text, span, " \t\r\n,")
    quoted = QUOTED.match(text, span.start, span.end)
    if quoted:
        return Span(*quoted.span(1))
    value = text[span.start : span.end]
    roles = _ROLES.match(value)
    if roles and not re.search(r"\d", roles[0]):  # "Gitega (political capital), Bujumbura (commercial capital)"
        return strip(text, Span(span.start, span.start + roles.end()), " ,;.")
    end = len(value)
    parenthesis = value.find(" (")
    cut = _CUTS.search(value, 1)
    if cut:
        end = cut.start()
    if 0 < parenthesis < end:
        close = value.find(")", parenthesis)
        inside, after = value[parenthesis + 2 : close], value[close + 1 :]
        described = value[0].islower() or re.search(r"\d", inside) or close < 0
        continued = re.match(r"\s*(?:,\s*\d|\(|[-\u2013]\s)|\s+river\b", after)
        if described or continued:
            end = parenthesis
        elif parenthesis < end <= close:
            later = _CUTS.search(value, close)
            end = later.start() if later else len(value)
    return Span(span.start, strip(text, Span(span.start, span.start + end), " ,.;-\u2013").end)
