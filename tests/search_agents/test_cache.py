from __future__ import annotations

import asyncio

import pytest

from search_agents.cache import ResultCache


def test_who_gives_up_does_not_cancel_the_others() -> None:
    async def run() -> tuple[tuple[str, bool], int]:
        cache, started, gate = ResultCache[str](), 0, asyncio.Event()

        async def make() -> str:
            nonlocal started
            started += 1
            await gate.wait()
            return "found"

        first = asyncio.ensure_future(cache.get("a", make))
        second = asyncio.ensure_future(cache.get("a", make))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.set()
        return await second, started

    assert asyncio.run(run()) == (("found", True), 1)


def test_what_nobody_waits_for_is_canceled_and_made_again() -> None:
    async def run() -> list[str]:
        cache, log = ResultCache[str](), []

        async def hang() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("canceled")
            return ""

        async def make() -> str:
            return "found"

        waiting = asyncio.ensure_future(cache.get("a", hang))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        log.append((await cache.get("a", make))[0])
        return log

    assert sorted(asyncio.run(run())) == ["canceled", "found"]


async def test_errors_are_not_kept_and_the_least_recently_used_goes_first() -> None:
    cache = ResultCache[str](entries=2)

    async def fail() -> str:
        raise OSError("no connection")

    async def make() -> str:
        return "found"

    with pytest.raises(OSError, match="no connection"):
        await cache.get("a", fail)
    assert await cache.get("a", make) == ("found", False)
    assert await cache.get("b", make) == ("found", False)
    assert await cache.get("a", make) == ("found", True)
    assert await cache.get("c", make) == ("found", False)
    assert [(await cache.get(key, make))[1] for key in "ab"] == [True, False]
    with pytest.raises(ValueError, match="seconds >= 0"):
        ResultCache[str](seconds=-1)
