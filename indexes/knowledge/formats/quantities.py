"""Quantities and dates as wikitext's templates write them: numbers, units, ranges, fractions, arithmetic, ages."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Arguments = Sequence[str]  # the values of a template without a name, as words
Named = Mapping[str, str]  # its values with a name

_NUMBER = re.compile(
    r"[+\-\u2212\u2013]?(?:\d[\d,.\s\u00a0]*|\.\d+)(?:[+/\u2044]\d+(?:[/\u2044]\d+)?)?(?:[eE][+-]?\d+)?"
)
_BETWEEN = {
    **{sign: "\u2013" for sign in ("-", "\u2013")},
    **{sign: " to " for sign in ("to", "to(-)", "to-")},
    **{sign: " \u00d7 " for sign in ("x", "\u00d7", "xx", "by", "*")},
    **{sign: " ± " for sign in ("+/-", "±")},
    **{sign: f" {sign} " for sign in ("and", "or", "+")},
    **{sign: f"{sign} " for sign in (",", ", and", ", or")},
    **{"and(-)": " and ", "/": "/"},
}
"""What stands between the values of a range."""
_UNITS = {
    "c": "°C", "f": "°F", "k": "K", "sqkm": "km^2", "sqmi": "sq mi", "sqft": "sq ft", "sqin": "sq in", "sqyd": "sq yd",
    "sqm": "m^2", "cuft": "cu ft", "cuin": "cu in", "cuyd": "cu yd", "cumi": "cu mi", "ftin": "ft", "usgal": "US gal",
    "impgal": "imp gal", "LT": "long tons", "ST": "short tons", "lbs": "lb", "acre-ft": "acre-feet", "kn": "knots",
    "mph": "mph", "foot": "ft", "feet": "ft", "inch": "in", "inches": "in", "mile": "mi", "miles": "mi", "deg": "°",
    "'": "ft", '"': "in",
}  # fmt: skip


def number(text: str) -> str | None:
    """Returns a number with its thousands separated by commas, as `formatnum` writes it; `None` for other text."""
    plain = text.strip().replace(",", "")
    found = re.fullmatch(r"([+\-\u2212]?)(\d+)(\.\d+)?", plain)
    if found is None:
        return text.strip() if _NUMBER.fullmatch(text.strip()) else None
    return f"{found[1]}{int(found[2]):,}{found[3] or ''}"


def calculated(text: str) -> str | None:
    """Returns the value of an arithmetic expression, as `#expr` writes it; `None` for one that cannot be calculated."""
    rounded = re.fullmatch(r"(.*?)\bround\s+(\d)\s*", text)
    source = (rounded[1] if rounded else text).replace("^", "**").replace("\u2212", "-").replace(",", "")
    source = re.sub(r"\bmod\b", "%", re.sub(r"\bdiv\b", "/", source)).strip()
    try:
        value = _value(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None
    value = round(value, int(rounded[2])) if rounded else value
    return str(int(value)) if float(value).is_integer() else f"{value:.12g}"


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]  # checked above
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_value(node.left), _value(node.right)))
    raise ValueError


def unit(code: str) -> str:
    """Returns a unit as it is written: `sqmi` as "sq mi", `km2` as "km^2"."""
    code = code.strip().removeprefix("e6").removeprefix("e3")
    known = _UNITS.get(code) or _UNITS.get(code.lower())
    if known is not None and (len(code) > 1 or not code.islower()):
        return known
    return re.sub(r"(?<=[A-Za-z])([23])(?!\d)", r"^\1", code)


def quantity(given: Arguments, named: Named) -> str | None:
    """Returns the quantity to convert, without its conversion: ranges, compounds such as 6 ft 2 in, and fractions."""
    given = given or named.get("input", "").split()
    within = given[-1] if named.get("adj") == "mid" and given and not _NUMBER.fullmatch(given[-1]) else ""
    parts, place = list[str](), 0
    while True:
        if place >= len(given) or not _NUMBER.fullmatch(given[place]):
            return None
        value = given[place].replace("+", " ") if "/" in given[place] else given[place]
        place += 1
        while place + 1 < len(given) and given[place] in _BETWEEN and _NUMBER.fullmatch(given[place + 1]):
            value += _BETWEEN[given[place]] + given[place + 1]
            place += 2
        if place >= len(given) or not given[place] or _NUMBER.fullmatch(given[place]):
            return None
        scale = " million" if given[place].startswith("e6") else " thousand" if given[place].startswith("e3") else ""
        parts.append(f"{value}{scale} {unit(given[place])}")
        place += 1
        if not (place + 1 < len(given) and _NUMBER.fullmatch(given[place]) and not _NUMBER.fullmatch(given[place + 1])):
            return " ".join(parts) + (within if within.startswith("-") else f" {within}".rstrip())


def scientific(given: Arguments, named: Named) -> str | None:
    """Returns the number of `val`, with its uncertainty, power of ten and units."""
    if not given or not all(map(_NUMBER.fullmatch, filter(None, given))) or not given[0]:
        return None
    text, above, below = number(given[0]) or given[0], *[*given[1:3], "", ""][:2]
    if above and below:
        text += f" +{above.lstrip('+')} -{below.lstrip('-')}"
    elif above:
        text += f" ± {above}"
    if power := named.get("e", "").strip():
        text += f"\u00d710^{power}" if re.fullmatch(r"\d+", power) else f"\u00d710^({power})"
    per = next((named[key] for key in ("up", "upl") if key in named), "")
    units = unit(next((named[key] for key in ("u", "ul") if named.get(key)), ""))
    units += f"/{unit(per)}" if per else ""
    return f"{named.get('p', '')}{text}{named.get('s', '')} {units}".strip()


def fraction(given: Arguments, named: Named) -> str | None:
    """Returns a fraction, with the whole number before it if there is one."""
    parts = [one for one in given if one]
    if not parts or not all(map(_NUMBER.fullmatch, parts)):
        return None
    whole, above, below = ["", "1", parts[0]] if len(parts) == 1 else ["", *parts] if len(parts) == 2 else parts[:3]
    return f"{whole} {above}/{below}".strip()


def measure(given: Arguments, named: Named) -> str | None:
    """Returns a height or weight: `ft=6|in=2`."""
    units = ("m", "cm", "ft", "in", "kg", "st", "lb", "oz")
    given_in = {one: named[one].strip() for one in units if _NUMBER.fullmatch(named.get(one, "").strip())}
    parts = [f"{value.replace('+', ' ') if '/' in value else value} {one}" for one, value in given_in.items()]
    return " ".join(parts) or quantity(given, named)


_DASH = "\u2013"
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)


def date(given: Arguments, named: Named) -> str | None:
    """Returns a date as numbers, or as it is written."""
    given = [one for one in given if one]
    if not given:
        return None
    return _numbers(given[: _leading_numbers(given)]) or given[0]


def dates(given: Arguments, named: Named) -> str | None:
    """Returns dates with the place of each, as of the releases of a film: `1999|5|6|Cannes|1999|6|1`."""
    given, found = [one for one in given if one], list[str]()
    while given:
        end = _leading_numbers(given)
        if not end:
            return date(given, named) if not found else None
        has_place = end < len(given)
        found.append(f"{_numbers(given[:end])} ({given[end]})" if has_place else _numbers(given[:end]))
        given = given[end + has_place :]
    return ", ".join(found) or None


def year(given: Arguments, named: Named) -> str | None:
    """Returns a year."""
    return given[0] if given and given[0].isdecimal() else None


def age(given: Arguments, named: Named) -> str | None:
    """Returns the years between two dates; between one and today, they are unknown."""
    given = [one for one in given if one]
    if len(given) != 6 or not all(map(str.isdecimal, given)):
        return None
    birth, then = tuple(map(int, given[:3])), tuple(map(int, given[3:]))
    return str(then[0] - birth[0] - (then[1:] < birth[1:]))


def about(word: str) -> Callable[[Arguments, Named], str | None]:
    """Returns a function that writes a year, or a span of years, behind a word; without a year, the word alone."""

    def dated(given: Arguments, named: Named) -> str | None:
        return f"{word} {_DASH.join([one for one in given if one][:2])}"

    return dated


def as_of(given: Arguments, named: Named) -> str | None:
    """Returns the words of a time at which a statement was true."""
    if named.get("alt"):
        return named["alt"]
    year, month, day = [*given, "", "", ""][:3]
    if not year:
        return None
    called = _MONTHS[int(month) - 1] if month.isdecimal() and 1 <= int(month) <= 12 else month
    word = "since" if named.get("since") else "as of"
    return " ".join(filter(None, (word if named.get("lc") else word.capitalize(), day, called, year)))


def _leading_numbers(given: Arguments) -> int:
    """Returns how many numbers of a date, at most three, a list begins with."""
    end = next((number for number, one in enumerate(given) if not one.isdecimal()), len(given))
    return min(end, 3)


def _numbers(parts: Arguments) -> str:
    return "-".join(part.zfill(2) for part in parts)
