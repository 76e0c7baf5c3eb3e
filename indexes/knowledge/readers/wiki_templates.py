"""The words of a few templates of wikis that follow from their arguments: quantities, dates, lists, quotations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_NUMBER = r"[+\-\u2212\u2013]?(?:\d[\d,.\s\u00a0]*|\.\d+)(?:[+/]\d+(?:/\d+)?)?"
_BETWEEN = {
    "-": "\u2013",
    "\u2013": "\u2013",
    "x": " \u00d7 ",
    "by": " \u00d7 ",
    "to": " to ",
    "and": " and ",
    "or": " or ",
}
"""What stands between the values of a range, and how it is written."""
_MEASURE = re.compile(rf"({_NUMBER}(?:\|(?:{'|'.join(_BETWEEN)})\|{_NUMBER})*)\|([^|\d][^|]*)(?:\||$)")
"""A quantity and its unit, in arguments that are joined by bars."""
_UNITS = {"c": "°C", "f": "°F", "sqkm": "km^2", "sqmi": "sq mi", "sqft": "sq ft", "sqm": "m^2", "cuft": "cu ft"}
_UNITS |= {"ftin": "ft", "impgal": "imp gal", "usgal": "US gal", "lbs": "lb", "kn": "knots", "foot": "ft", "inch": "in"}
_UNITS |= {"mile": "mi", "lt": "long tons"}  # those that are not written as their codes
_POWERS = {"e3": "thousand ", "e6": "million ", "e9": "billion "}
_TEXTS = {"snd": " \u2013 ", "spaced ndash": " \u2013 ", "ndash": "\u2013", "mdash": "\u2014", "nbsp": " ", "!": "|"}
_TEXTS |= {"·": " · ", "dot": " · ", "=": "=", "'": "'", "'s": "'s", "okina": "\u02bb", "wbr": "", "shy": "", "-": ""}
_BEFORE = {"circa": "c. ", "c.": "c. ", "floruit": "fl. ", "as of": "As of ", "usd": "US$", "us$": "US$", "€": "€"}
_BEFORE |= {"£": "£", "gbp": "£", "inr": "₹"}
_FIRST = re.compile(
    r"nowrap|nobr|nobold|small(?:er)?|larger?|big|abbr|tooltip|em|strong|flag(?:u|country)?|ill|lien|url|marriage"
    r"|interlanguage link|[lu]c:"
)
_LAST = re.compile(r"lang|langx|lang-[a-z-]+|transl\w*|script|sort|font ?color|colou?r")
_LISTS = re.compile(r"ubl|(?:unbulleted|bulleted|br|plain|flat|collapsible|ordered) list|(?:plain|flat|h|b|cs|br)list")
_QUOTES = re.compile(r"(?:block|c)?quote|quotation|quote box")
_DATES = re.compile(r"(?:birth|death|start|end|film|release|founding)[ -]?(?:date|year)\b.*|date|dts")


def words_of_template(name: str, values: Sequence[str], named: Mapping[str, str]) -> str | None:
    """Returns the words of a template, `None` if they are unknown: `6 ft` for `convert` with `6`, `ft` and `m`.

    The name is in lower case and has spaces, that of a parser function ends with a colon; values are words.
    """
    if name in _TEXTS:
        return _TEXTS[name]
    if name in ("convert", "cvt", "height", "weight"):
        measure = " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in", "kg", "lb") if named.get(unit))
        return measure or _quantity("|".join(values))
    if _LISTS.fullmatch(name):
        return "\n".join((*filter(None, [named.get("title")]), *values))
    if _QUOTES.fullmatch(name):
        texts = [named[key] for key in ("text", "quote", "author", "sign", "source") if named.get(key)]
        return "\n".join(("", *values, *texts, ""))
    if not values:
        return None
    if name in ("sub", "sup"):
        return f"<{name}>{values[0]}</{name}>"
    if name == "val":
        power = f"\u00d710^{named['e']}" if named.get("e") else ""
        return f"{values[0]}{power} {_unit(named.get('u', ''))}".strip()
    if name in ("frac", "fraction", "sfrac"):
        return f"{' '.join(values[:-2])} {'/'.join(values[-2:])}".strip()
    if _DATES.fullmatch(name):
        return "-".join(value.zfill(2) for value in values[:3] if value.isdecimal()) or " ".join(values)
    if name.startswith("nihongo"):
        others = ", ".join(filter(None, values[1:3]))
        return f"{values[0]} ({others})".strip() if others else values[0]
    if name in ("formatnum:", "number"):
        return f"{int(values[0]):,}" if values[0].isdecimal() else values[0]
    if name in _BEFORE:
        return _BEFORE[name] + values[0]
    return values[0] if _FIRST.fullmatch(name) else values[-1] if _LAST.fullmatch(name) else None


def _quantity(text: str) -> str | None:
    """Returns the quantity to convert, without its conversion: ranges, compounds such as 6 ft 2 in, and fractions."""
    parts, place = list[str](), 0
    while match := _MEASURE.match(text, place):
        amount = re.sub(r"\|(.+?)\|", lambda sign: _BETWEEN[sign[1]], match[1])
        parts.append(f"{amount.replace('+', ' ') if '/' in amount else amount} {_unit(match[2])}")
        place = match.end()
    return " ".join(parts) or None


def _unit(code: str) -> str:
    power = _POWERS.get(code[:2], "")
    code = code[2:] if power else code
    return power + (_UNITS.get(code.lower()) or re.sub(r"(?<=[A-Za-z])([23])(?!\d)", r"^\1", code))
