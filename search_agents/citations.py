"""Parses citations of numbered sources, such as `[3]`, in the forms in which models write them."""

from __future__ import annotations

import re

_NUMBER = r"[\"'^#]?(?:(?:result|source|web|page|ref|quote)s?(?:[_ ]?id)?\s?[#:]?\s?)?\d{1,9}(?:\u2020\w{1,20})?[\"']?"
_SEPARATOR = r"\s{0,2}(?:[,;\u3001\uff0c]|and|&|-|\u2013|to)\s{0,2}"
_CITATION = re.compile(
    rf"([\"'`]?)[\[\u3010]{{1,2}}\s{{0,2}}({_NUMBER}(?:{_SEPARATOR}{_NUMBER})*)\s{{0,2}}[\]\u3011]{{1,2}}\1",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d{1,9})[\"']?\s*(?:-|\u2013|to)\s*[\"']?(?:\w+\s+)?(\d{1,9})", re.IGNORECASE)
_LONGEST = 50
"""Maximum length of a range; of a longer one, only the ends count."""


def cited(text: str) -> set[int]:
    """Returns the numbers that a text cites.

    Example:
        >>> sorted(cited("Niamey [1, 9]. Not Lagos ['3'][Result 4]. Nor Abuja [5-7]."))
        [1, 3, 4, 5, 6, 7, 9]
    """
    numbers: set[int] = set()
    for _, group in _CITATION.findall(text):
        group = re.sub(r"\u2020\w+", "", group)
        for first, last in _RANGE.findall(group):
            if int(first) <= int(last) < int(first) + _LONGEST:
                numbers |= set(range(int(first), int(last) + 1))
        numbers |= {int(number) for number in re.findall(r"\d+", group)}
    return numbers


def without_citations(text: str) -> str:
    """Returns a text without its citations.

    Example:
        >>> without_citations("Niamey [1, 9] ."), without_citations("Niamey '[1]'")
        ('Niamey.', 'Niamey')
    """
    text = re.sub(r"(?<!\s)\s+([.,;:!?])", r"\1", _CITATION.sub("", text))
    return re.sub(r"[ \t]{2,}", " ", text).strip()
