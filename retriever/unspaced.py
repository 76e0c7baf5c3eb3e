"""Scripts that write no spaces between words: Chinese, Japanese, Thai, Lao, Khmer and Burmese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_EAST = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
)
_SOUTHEAST = "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
UNSPACED = _EAST + _SOUTHEAST
"""Characters of these scripts, for a character class of a regular expression."""
_CHARACTER = re.compile(f"[{UNSPACED}]")
_PAIRED = re.compile(f"[{_EAST}]")
_RUN = re.compile(rf"([{_EAST}]+|[{_SOUTHEAST}]+)")
_WORD = re.compile(rf"[{_EAST}]|[{_SOUTHEAST}]{{1,4}}|[^\s{UNSPACED}]+")


def has_unspaced(text: str) -> bool:
    """Returns whether a text contains a character of such a script."""
    return _CHARACTER.search(text) is not None


def count_words(text: str) -> int:
    """Counts the words of a text; in scripts without spaces, each Chinese or Japanese character, or four others.

    Example:
        >>> count_words("It weighs 5 kg."), count_words("高さ 20 m")
        (4, 4)
    """
    if text.isascii() or not has_unspaced(text):
        return len(text.split())
    return sum(1 for _ in _WORD.finditer(text))


def first_words(text: str, count: int) -> str:
    """Returns the beginning of a text that has at most `count` words, counted as by `count_words`.

    Example:
        >>> first_words("It weighs 5 kg.", 2), first_words("高さ 20 m", 3)
        ('It weighs', '高さ 20')
    """
    end = 0
    for word in islice(_WORD.finditer(text), count):
        end = word.end()
    return text[:end]


def terms(word: str) -> Iterator[str]:
    """Yields the search terms of a word: in scripts without spaces, every few adjacent characters.

    Splitting such a script into words takes a dictionary. Terms are pairs of Chinese and Japanese characters, and three
    characters of the others, which are alphabets; fewer than that are one term.

    Example:
        >>> list(terms("花生米")), list(terms("tower")), list(terms("5月fest"))
        (['花生', '生米'], ['tower'], ['5', '月', 'fest'])
    """
    for part in filter(None, _RUN.split(word)):
        size = 2 if _PAIRED.match(part) else 3 if _CHARACTER.match(part) else len(part)
        yield from (part[i : i + size] for i in range(max(len(part) - size, 0) + 1))
