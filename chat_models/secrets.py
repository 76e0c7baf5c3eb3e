"""Keys of servers, blacked out wherever a server repeats them: replies, errors, addresses and logs.

What comes from a server passes `hidden` once, where it is read: then no trail, report or log has to know of keys.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

T = TypeVar("T")

HIDDEN = "…"
"""What stands for a key."""
SHORTEST = 8
"""Characters of the shortest key; a shorter one, such as EMPTY, is a word that opens a server without keys."""
_NAMES = re.compile(r"key|token|secret|pass|pwd|sig|auth|credential", re.IGNORECASE)
"""Parameters of an address that are secret."""
_known: set[str] = set()


def keep_secret(*keys: str | None, url: str = "") -> None:
    """Notes keys, and what is secret in an address, to be blacked out from now on in this process."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    values = [value for name, value in parse_qsl(parts.query) if _NAMES.search(name)]
    both = [base64.b64encode(f"{user}:{password}".encode()).decode()] if password else []
    for key in (*keys, password, *(() if password else [user]), *values, *both):
        if key and len(key := key.strip()) >= SHORTEST:
            spelled = json.dumps(key)[1:-1]
            _known.update((key, quote(key), quote(key, safe=""), spelled, spelled.replace("/", "\\/")))


def hidden(value: T) -> T:
    """Returns a text, or a JSON value with all its texts, in which keys are blacked out."""
    if not _known:
        return value
    shown: Any = value
    if isinstance(value, str):
        shown = _pattern(frozenset(_known)).sub(HIDDEN, value)
    elif isinstance(value, Mapping):
        shown = {hidden(key): hidden(part) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        shown = type(value)(hidden(part) for part in value)
    return shown  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _pattern(keys: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(keys, key=len, reverse=True))))


class HiddenStream:
    """Blacks out keys in a text that comes in pieces; holds back an end that may be the beginning of a key."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Adds a piece; returns the text that can be sent."""
        text = hidden(self._held + piece)
        lengths = (n for key in _known for n in range(1, min(len(key), len(text) + 1)) if text.endswith(key[:n]))
        ready = len(text) - max(lengths, default=0)
        self._held = text[ready:]
        return text[:ready]

    def close(self, piece: str) -> str:
        """Adds the last piece; returns the rest of the text."""
        return hidden(self._held + piece)


class _LogFilter(logging.Filter):
    """Blacks out keys in the lines that httpx logs, which have whole addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites a record if it has a key."""
        if (shown := hidden(line := record.getMessage())) != line:
            record.msg, record.args = shown, ()
        return True


logging.getLogger("httpx").addFilter(_LogFilter())
