"""How long to wait before a failed request is sent again, and the time limit of a block, which its requests know of."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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


_END: ContextVar[float | None] = ContextVar("deadline", default=None)


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Ends a block after so many seconds.

    Its chat clients wait that long for a slow model, and give up at once if a server asks them to wait longer.

    Raises:
        TimeoutError: The time is over.
    """
    token = _END.set(time.monotonic() + seconds)
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        _END.reset(token)


def seconds_left() -> float | None:
    """Returns the seconds left in the innermost block of `within`, or `None` outside of one."""
    end = _END.get()
    return None if end is None else max(0.0, end - time.monotonic())
