"""Dates, years and ages as wikitext's templates write them."""

from __future__ import annotations

from collections.abc import Callable

from indexes.knowledge.formats.quantities import Arguments, Named

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
