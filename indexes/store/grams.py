"""Character n-grams of words, by which misread and joined words still match, in any language."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
from numpy.typing import NDArray

from retriever.types import IntArray

GramArray = NDArray[np.uint64]

_SIZES = (3, 4)
_WORD = re.compile(r"\w+")
_PRIME, _SCATTER = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


def grams(text: str) -> tuple[GramArray, IntArray]:
    """Returns the 3- and 4-grams of a text's words, as ascending hashes, and how often each occurs.

    Case and accents are ignored. A word has a space on both sides, which belongs to its first and last gram.
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    words = _WORD.findall("".join(letter for letter in plain if not unicodedata.combining(letter)))
    letters = np.frombuffer(f" {' '.join(words)} ".encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
    hashes = [_hashed(letters, size) for size in _SIZES if words and len(letters) >= size]
    found, counts = np.unique(np.concatenate(hashes or [np.empty(0, np.uint64)]), return_counts=True)
    return found, counts.astype(np.int64)


def _hashed(letters: GramArray, size: int) -> GramArray:
    """Returns a hash per window of letters that is within one word."""
    count = len(letters) - size + 1
    values = np.full(count, size, np.uint64)
    for place in range(size):
        values = values * _PRIME + letters[place : place + count]
    values = (values ^ (values >> np.uint64(32))) * _SCATTER  # so that the leading bits are even, too
    inside = np.all([letters[place : place + count] != ord(" ") for place in range(1, size - 1)], axis=0)
    within: GramArray = values[inside]
    return within
