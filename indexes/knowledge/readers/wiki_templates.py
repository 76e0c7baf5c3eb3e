"""The words of a few templates of wikis that follow from their arguments: quantities, dates, lists, quotations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Arguments = Sequence[str]  # the values of a template without a name, as words
Named = Mapping[str, str]  # its values with a name

_NUMBER = re.compile(r"[+\-\u2212\u2013]?(?:\d[\d,.\s\u00a0]*|\.\d+)(?:[+/]\d+(?:/\d+)?)?")
_BETWEEN = {"-": "\u2013", "\u2013": "\u2013", "x": " \u00d7 ", "by": " \u00d7 "}
_BETWEEN |= {word: f" {word} " for word in ("to", "and", "or")}
"""What stands between the values of a range."""
_UNITS = {
    "c": "°C", "f": "°F", "sqkm": "km^2", "sqmi": "sq mi", "sqft": "sq ft", "sqm": "m^2", "cuft": "cu ft", "ftin": "ft",
    "impgal": "imp gal", "usgal": "US gal", "lbs": "lb", "kn": "knots", "foot": "ft", "inch": "in", "mile": "mi",
}  # fmt: skip
"""Units that are not written as their codes."""
_TEXTS = {"snd": " \u2013 ", "spaced ndash": " \u2013 ", "ndash": "\u2013", "mdash": "\u2014", "nbsp": " ", "!": "|"}
_TEXTS |= {"·": " · ", "dot": " · ", "=": "=", "'": "'", "'s": "'s", "okina": "\u02bb", "wbr": "", "shy": "", "-": ""}
_BEFORE = {"circa": "c. ", "c.": "c. ", "floruit": "fl. ", "as of": "As of ", "usd": "US$", "us$": "US$", "€": "€"}
_BEFORE |= {"£": "£", "gbp": "£", "inr": "₹", "formatnum:": "", "number": ""}
_FIRST = re.compile(
    r"nowrap|nobr|small|big|abbr|sub|em|strong|flag(?:u|country)?|ill|interlanguage link|lien|url|nihongo"
    r"|marriage|[lu]c:"
)
_LAST = re.compile(r"lang|langx|lang-[a-z-]+|transl\w*|script|sort|font ?color|colou?r")
_LISTS = re.compile(r"ubl|(?:unbulleted|bulleted|br|plain|flat|collapsible|ordered) list|(?:plain|flat|h|b|cs|br)list")
_QUOTES = re.compile(r"(?:block|c)?quote|quotation|quote box")
_DATES = re.compile(r"(?:birth|death|start|end|film|release|founding)[ -]?(?:date|year)\b.*|date|dts")


def words_of_template(name: str, values: Arguments, named: Named) -> str | None:
    """Returns the words of a template, `None` if they are unknown.

    Args:
        name: Its name, in lower case and with spaces; a parser function's ends with a colon.
        values: The values without a name, as words.
        named: The values with a name.

    Example:
        >>> words_of_template("convert", ["6", "ft", "1", "in"], {}), words_of_template("mystery", ["3"], {})
        ('6 ft 1 in', None)
    """
    if name in _TEXTS:
        return _TEXTS[name]
    if name in ("convert", "cvt", "height", "weight"):
        measure = " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in", "kg", "lb") if named.get(unit))
        return measure or _quantity(values)
    if name == "val" and values:
        power = f"\u00d710^{named['e']}" if named.get("e") else ""
        return f"{values[0]}{power} {_unit(named.get('u', ''))}".strip()
    if name in ("frac", "fraction", "sfrac"):
        return f"{' '.join(values[:-2])} {'/'.join(values[-2:])}".strip()
    if _DATES.fullmatch(name):
        return "-".join(value.zfill(2) for value in values[:3] if value.isdecimal()) or " ".join(values) or None
    if _QUOTES.fullmatch(name):
        texts = [named[key] for key in ("text", "quote", "author", "sign", "source") if named.get(key)]
        return "\n".join(("", *values, *texts, ""))
    if _LISTS.fullmatch(name):
        return "\n".join((*filter(None, [named.get("title")]), *values))
    if not values:
        return None
    if name in _BEFORE:
        return _BEFORE[name] + (f"{int(values[0]):,}" if values[0].isdecimal() and len(values[0]) > 4 else values[0])
    return values[0] if _FIRST.fullmatch(name) else values[-1] if _LAST.fullmatch(name) else None


def _quantity(values: Arguments) -> str | None:
    """Returns the quantity to convert, without its conversion: ranges, compounds such as 6 ft 2 in, and fractions."""
    parts, place = list[str](), 0
    while place + 1 < len(values) and _NUMBER.fullmatch(values[place]):
        amount = values[place].replace("+", " ") if "/" in values[place] else values[place]
        place += 1
        while place + 1 < len(values) and values[place] in _BETWEEN:
            amount += _BETWEEN[values[place]] + values[place + 1]
            place += 2
        if place == len(values) or not values[place] or _NUMBER.fullmatch(values[place]):
            break
        parts.append(f"{amount} {_unit(values[place])}")
        place += 1
    return " ".join(parts) or None


def _unit(code: str) -> str:
    return _UNITS.get(code.lower()) or re.sub(r"(?<=[A-Za-z])([23])(?!\d)", r"^\1", code)
