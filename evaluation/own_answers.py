"""Compares answers to one's own questions: case and punctuation do not count; numbers, signs, units and symbols do."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u02bc\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u2033", '"'),
        "_": " ",
    }
)
_EMPHASIS = re.compile(r"(?<![\w*`])(\*{1,3}|`+)(?=[^\s*])(.+?)(?<=[^\s*])\1(?![\w*`])")
"""Markdown's emphasis and code."""
_QUOTED = re.compile(r"(?<!\w)([\"'])(?=\S)(.+?)\1(?!\w)")
_THOUSANDS = re.compile(
    r"(?<![\d.,])[1-9]\d?\d?(?:(?:,\d{2,3})*,\d{3}(?![\d,])|(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)|(?:['\u2019]\d{3})+(?!\d))"
)
_RANGE = re.compile(r"(?<=\d)\s+-\s+(?=\d)")
_TOKEN = re.compile(
    r"""
    (?P<number>(?:(?<!\w)[-+])?(?:\d+(?:[.,:]\d+)*|\.\d+))        # a number or a time, with its sign
    | (?P<mark>(?<=\d)['"](?![^\W\d_])                                # feet and inches
        | (?<=\d)-(?=\d|\W|\Z)                                    # a range, a charge
        | \b[^\W\d_]{1,2}-(?!\w))                                 # A-, Cl-
    | (?P<word>[^\W\d_]+(?:['.-][^\W\d_]+)*(?:[+\#*]+(?!\w))?)    # a word: U.S, don't, x-ray, C++
    | (?P<other>[^\w\s])
    """,
    re.VERBOSE,
)
_SYMBOLS = frozenset("#%&*/@\\")
"""Punctuation that counts, as do all symbols in Unicode's sense, such as `+`, `$` and `°`."""
_ARTICLES = frozenset(("a", "an", "the"))


def own_tokens(text: str) -> list[str]:
    """Returns the parts of an answer that count.

    Words are in lower case, without apostrophes, inner points and hyphens. Numbers have their sign, points and colons,
    but not the separators of thousands. Symbols are parts of their own; a superscript belongs to its word. Other
    punctuation is left out, and so are articles before a word or number.

    Example:
        >>> own_tokens("The U.S. Dollar"), own_tokens("-1,234.50 km²"), own_tokens("C++ (5 %)")
        (['us', 'dollar'], ['-1234.50', 'km²'], ['c++', '5', '%'])
    """
    joined = _THOUSANDS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    plain = unicodedata.normalize("NFC", "".join(map(_plain, joined))).translate(_ALIKE)
    for marks in (_EMPHASIS, _QUOTED):
        plain = marks.sub(r"\2", plain)
    tokens = list(_counting(_RANGE.sub("-", plain).casefold()))
    pairs = itertools.zip_longest(tokens, tokens[1:], fillvalue="")
    return [one for one, after in pairs if one not in _ARTICLES or not after[:1].isalnum()]


def own_match(answer: str, references: Sequence[str]) -> bool:
    """Returns whether an answer equals any reference in the parts that count.

    Example:
        >>> own_match("377,975 km", ["377975 km"]), own_match("1.5", ["15"]), own_match("5", ["-5"])
        (True, False, False)
    """
    given = own_tokens(answer)
    return any(_same(given, own_tokens(one), answer, one) for one in references)


def own_contains(answer: str, references: Sequence[str]) -> bool:
    """Returns whether an answer contains the parts of any reference, one after the other.

    Example:
        >>> own_contains("It is Sochi, Russia.", ["Sochi"]), own_contains("It is 1.5 m.", ["15 m"])
        (True, False)
    """
    given = own_tokens(answer)
    wanted = [tokens for one in references if (tokens := own_tokens(one))]
    return any(given[at : at + len(one)] == one for one in wanted for at in range(len(given) - len(one) + 1))


def _same(given: list[str], wanted: list[str], answer: str, reference: str) -> bool:
    return given == wanted if given or wanted else answer.strip() == reference.strip()


def _plain(character: str) -> str:
    """Returns the usual form of a character; superscripts and fractions stay, because 10² is not 102."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    return character if unicodedata.category(character) == "No" else unicodedata.normalize("NFKC", character)


def _counting(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found["number"]:
            yield re.sub(r"^([-+]?)\.", r"\g<1>0.", token)
        elif found["word"]:
            yield re.sub(r"(?<=\w)['.-](?=\w)", "", token)
        elif found["mark"] or token in _SYMBOLS or _is_symbol(token):
            yield token


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return character != "`" and (category[0] in "SM" or category == "No")
