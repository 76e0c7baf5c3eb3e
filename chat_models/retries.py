"""How long to wait before a failed request is sent again."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

PASSING = (408, 409, 425, 429)
"""Statuses below 500 after which a request may succeed if it is sent again."""
MAX_WAIT = 60.0
"""Longest wait before a retry, in seconds."""


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that the headers of a response ask to wait, or `None`; OpenAI also sends milliseconds."""
    milliseconds = headers.get("retry-after-ms", "")
    if re.fullmatch(r"\d+(\.\d+)?", milliseconds, re.ASCII):
        return float(milliseconds) / 1000
    return retry_after(headers.get("retry-after"))


def retry_after(header: str | None) -> float | None:
    """Returns the seconds until the time in a Retry-After header, given as seconds or a date; `None` if neither."""
    if not header:
        return None
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", header, re.ASCII):
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def seconds_to_wait(header: str | None, attempt: int, backoff: float = 0.5) -> float:
    """Returns the seconds in a Retry-After header or, without one, `backoff` times 1, 2, 4, … with jitter."""
    after = retry_after(header)
    return backoff * 2**attempt * (1 + 0.25 * random.random()) if after is None else after
