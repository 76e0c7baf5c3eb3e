"""The event loop in its own thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError

import pytest

from llm.background import BackgroundLoop


async def double(number: int) -> int:
    return 2 * number


def test_closing_cancels_what_is_running() -> None:
    loop, closed = BackgroundLoop(), list[str]()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("connection")

    assert loop.submit(double(2)).result(20) == 4
    waiting = loop.submit(wait())
    loop.close()
    with pytest.raises(CancelledError):
        waiting.result(20)  # would never return if it were not canceled
    assert closed == ["connection"]


def test_a_closed_loop_starts_again() -> None:
    loop = BackgroundLoop()
    loop.close()  # nothing to close yet
    for number in (1, 2):
        assert loop.submit(double(number)).result(20) == 2 * number
        loop.close()
