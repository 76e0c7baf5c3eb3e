"""The one normalization of texts that are compared: case, typography and punctuation do not count; numbers, signs do.

Published metrics keep rules of their own (docs/evaluation.md).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_ALIKE = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"),
    **dict.fromkeys("\u00b4\u2018\u2019\u201a\u02bc\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u2033", '"'),
    **dict.fromkeys("\u00a0\u2009\u202f", "\u00a0"),  # not yet a space, because it may separate thousands
    **dict.fromkeys("\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\ufe0e\ufe0f\ufeff", ""),  # invisible
    **dict.fromkeys(map(chr, (*range(0x202A, 0x202F), *range(0x2060, 0x206A))), ""),
    "_": " ",
}
_EMPHASIS = re.compile(r"(?<![\w*`])(\*{1,3}|`+)(?=[^\s*])(.+?)(?<=[^\s*])\1(?![\w*`])")
"""Markdown's emphasis and code."""
_QUOTED = re.compile(r"(?<!\w)([\"'])(?=\S)(.+?)\1(?!\w)")
_THOUSANDS = re.compile(
    r"[1-9](?<![\d.,][1-9])\d?\d?(?:(?:,\d{2,3})*,\d{3}(?![\d,])|(?:\u00a0\d{3})+(?!\d)|(?:'\d{3})+(?!\d))"
)
_RANGE = re.compile(r" - (?<=\d - )(?=\d)")
_DECIMAL = re.compile(r"([-+]?(?:0|\d+(?!\.\d{3}$)))\.(\d*?)0+")  # three decimals may be thousands: 1.500
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


class _Plain(dict[int, str]):
    """The usual form of each character, found when it first occurs; superscripts and fractions stay: 10² is not 102."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isdecimal():
            plain = str(unicodedata.decimal(character))
        elif character in _ALIKE or unicodedata.category(character) == "No":
            plain = _ALIKE.get(character, character)
        else:
            usual = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", character).casefold())
            plain = "".join(_ALIKE.get(part, part) for part in usual)
        self[code] = plain
        return plain


_PLAIN = _Plain()


def uniform(text: str) -> str:
    """Returns a text in one way to write it: in lower case, with plain quotes, dashes, digits and spaces.

    Example:
        >>> uniform("O\u2019BRIEN\u00a0\u2013 \uff13\uff17\uff17,975"), uniform("1990 \u2013 91")
        ("o'brien - 377975", '1990-91')
    """
    joined = _THOUSANDS.sub(lambda number: re.sub(r"\D", "", number[0]), _characters(text))
    return _RANGE.sub("-", " ".join(joined.split()))


def _characters(text: str) -> str:
    if text.isascii():
        return text.lower().replace("_", " ")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).translate(_PLAIN))


def own_tokens(text: str) -> list[str]:
    """Returns the parts of an answer that count.

    Words are in lower case, without apostrophes, inner points and hyphens. Numbers have their sign, points and colons,
    but neither the separators of thousands nor zeros at the end of decimals. Symbols are parts of their own; a
    superscript belongs to its word. Other punctuation is left out, and so are articles before a word or number.

    Example:
        >>> own_tokens("The U.S. Dollar"), own_tokens("-1,234.50 km²"), own_tokens("C++ (5 %)")
        (['us', 'dollar'], ['-1234.5', 'km²'], ['c++', '5', '%'])
    """
    tokens = list(_counting(_QUOTED.sub(r"\2", _EMPHASIS.sub(r"\2", uniform(text)))))
    pairs = itertools.zip_longest(tokens, tokens[1:], fillvalue="")
    return [one for one, after in pairs if one not in _ARTICLES or not after[:1].isalnum()]


def own_match(answer: str, references: Sequence[str]) -> bool:
    """Returns whether an answer equals any reference in the parts that count.

    Example:
        >>> own_match("377,975 km", ["377975 km"]), own_match("1.5", ["15"]), own_match("5", ["-5"])
        (True, False, False)
    """
    given = own_tokens(answer)
    return any(given == own_tokens(one) and bool(given or answer.strip() == one.strip()) for one in references)


def own_contains(answer: str, references: Sequence[str]) -> bool:
    """Returns whether an answer contains the parts of any reference, one after the other.

    Example:
        >>> own_contains("It is Sochi, Russia.", ["Sochi"]), own_contains("It is 1.5 m.", ["15 m"])
        (True, False)
    """
    given = own_tokens(answer)
    wanted = [tokens for one in references if (tokens := own_tokens(one))]
    return any(given[at : at + len(one)] == one for one in wanted for at in range(len(given) - len(one) + 1))


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Returns whether a text contains one of the answers, ignoring case, even inside a longer word.

    Pseudo Recall, as evaluated by FLMR and PreFLMR, counts this; here, other typography is no difference either. For an
    answer that is a list (`&&`), the text must contain every item.

    Example:
        >>> contains_answer("The flag is red and white.", ["blue", "White"]), contains_answer("red", ["red&&white"])
        (True, False)
    """
    wanted, numbers = _items(tuple(answers))
    lowered, plain = text.lower(), uniform(text) if numbers else " ".join(_characters(text).split())
    return any(items and all(lower in lowered or form in plain for lower, form in items) for items in wanted)


@lru_cache(maxsize=64)
def _items(answers: tuple[str, ...]) -> tuple[list[list[tuple[str, str]]], bool]:
    """Returns the items of each answer, in lower case and in their uniform form, and whether there is a digit."""
    wanted = [[(item.strip().lower(), uniform(item)) for item in answer.split("&&")] for answer in answers]
    wanted = [[(lower, form) for lower, form in items if form] for items in wanted]
    return wanted, any(map(str.isdecimal, (sign for items in wanted for _, form in items for sign in form)))


def _counting(text: str) -> Iterator[str]:
    for found in _TOKEN.finditer(text):
        token = found[0]
        if found["number"]:
            number = re.sub(r"^([-+]?)\.", r"\g<1>0.", token)
            decimal = _DECIMAL.fullmatch(number)
            yield f"{decimal[1]}.{decimal[2]}".rstrip(".") if decimal else number
        elif found["word"]:
            yield re.sub(r"(?<=\w)['.-](?=\w)", "", token)
        elif found["mark"] or token in _SYMBOLS or _is_symbol(token):
            yield token


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return character != "`" and (category[0] in "SM" or category == "No")
