"""Articles that are in a knowledge base more than once: they are the same entity, and no negatives of each other."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from retriever.types import Entity, IntArray

LONG = 200
"""Characters from which a text alone tells copies; shorter ones may be written for many, and need the same title."""
_WORD = re.compile(r"\w+")


def text_hash(entity: Entity) -> int:
    """Returns a hash of an article's text that ignores case, punctuation, white space and forms of characters, uint64.

    Articles without a text have the hash of their id.
    """
    text = _words(" ".join(section.text for section in entity.sections))
    if not text:
        text = f"id {entity.id}"
    elif len(text) < LONG:
        text = f"{_words(entity.title)}\n{text}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def originals(hashes: Sequence[int]) -> IntArray:
    """Returns the first row that has the text of each row, given their hashes, int64 [N]."""
    _, first, group = np.unique(np.asarray(hashes, np.uint64), return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
