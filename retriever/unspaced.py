"""Scripts that write no spaces between words: Chinese characters and Japanese kana."""

from __future__ import annotations

import re
from collections.abc import Iterator

UNSPACED = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
)
"""Characters of these scripts, for a character class of a regular expression."""
_CHARACTER = re.compile(f"[{UNSPACED}]")
_RUN = re.compile(rf"([{UNSPACED}]+)")
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")


def is_unspaced(text: str) -> bool:
    """Returns whether more than half of a text's letters belong to such a script.

    Example:
        >>> is_unspaced("樹齢は何年ですか"), is_unspaced("What is 味噌 made of?")
        (True, False)
    """
    return 2 * len(_CHARACTER.findall(text)) > sum(map(str.isalpha, text))


def has_unspaced(text: str) -> bool:
    """Returns whether a text contains a character of such a script."""
    return _CHARACTER.search(text) is not None


def count_words(text: str) -> int:
    """Counts the words of a text; each character of a script without spaces counts as one.

    Example:
        >>> count_words("It weighs 5 kg."), count_words("高さ 20 m")
        (4, 4)
    """
    return sum(1 for _ in _WORD.finditer(text))


def terms(word: str) -> Iterator[str]:
    """Yields the search terms of a word: in scripts without spaces, every pair of adjacent characters.

    Splitting such a script into words takes a dictionary; pairs do without. A lone character is a term.

    Example:
        >>> list(terms("花生米")), list(terms("tower")), list(terms("5月fest"))
        (['花生', '生米'], ['tower'], ['5', '月', 'fest'])
    """
    for part in _RUN.split(word):
        if _RUN.match(part) is None or len(part) < 2:
            yield from filter(None, (part,))
        else:
            yield from (part[i : i + 2] for i in range(len(part) - 1))
