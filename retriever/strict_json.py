"""What JSON can express and nothing else takes, in files, requests and records: keys twice, lone surrogates."""

from __future__ import annotations

from collections import Counter
from typing import Any


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object's members as a dict; an `object_pairs_hook`.

    Raises:
        ValueError: A key occurs twice; `json` would silently keep the last.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice[:40]!r} occurs twice in one object")
    return result


def is_unicode(text: str) -> bool:
    """Returns whether a text has no lone surrogate: JSON can express one, but no file and no tokenizer accepts it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
