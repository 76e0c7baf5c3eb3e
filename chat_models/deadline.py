"""The time that a caller has left for the requests to a chat server within a block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Lets chat clients know that the requests of this block are of use only for so many seconds.

    They wait that long for a slow model, and give up at once if a server asks them to wait longer.
    """
    token = _END.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def seconds_left() -> float | None:
    """Returns the seconds left in the innermost block of `within`, or `None` outside of one."""
    end = _END.get()
    return None if end is None else max(0.0, end - time.monotonic())
