"""Texts that look like a key: people paste keys into the wrong field, and messages would repeat them in logs."""

from __future__ import annotations

import re

_KEY = re.compile(r"\b(omgm-|sk-|xai-|gsk_|hf_)[\w-]{12,}")


def without_keys(text: str) -> str:
    """Returns a message without what looks like keys of this service or of well-known ones.

    Example:
        >>> without_keys("unknown field 'sk-proj-0123456789abcdef'")
        "unknown field 'sk-…'"
    """
    return _KEY.sub(r"\1…", text)
