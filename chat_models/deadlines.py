"""The time limit of a block, which its requests know of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

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
