"""A cache of tool results by content hash: entries expire, and identical concurrent searches are joined."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ResultCache(Generic[T]):
    """A cache within one event loop, shared by all runs in it.

    Args:
        seconds: Time in seconds after which a result expires.
        entries: Maximum number of results; the least recently used one is evicted first.
        clock: Returns the time in seconds.

    Raises:
        ValueError: A limit is negative.
    """

    def __init__(self, seconds: float = 3600, entries: int = 1024, clock: Callable[[], float] = time.monotonic) -> None:
        if seconds < 0 or entries < 0:
            raise ValueError(f"a cache needs seconds >= 0 and entries >= 0, got {seconds=}, {entries=}")
        self._seconds, self._entries, self._clock = seconds, entries, clock
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._running: dict[str, tuple[asyncio.Task[T], list[None]]] = {}

    def __contains__(self, key: str) -> bool:
        """Returns whether the result for a key is cached or being computed."""
        return key in self._running or self._is_kept(key)

    async def get(
        self, key: str, make: Callable[[], Awaitable[T]], keep: Callable[[T], bool] = lambda result: True
    ) -> tuple[T, bool]:
        """Returns the result for a key, and whether it was cached or already being computed.

        An error is raised in all waiting callers and is not cached. If no caller is waiting any more, the computation
        is canceled.

        Args:
            key: Identifies the result.
            make: Computes the result.
            keep: Returns whether to cache a result; otherwise only the callers that are waiting now get it.
        """
        if self._is_kept(key):
            self._kept.move_to_end(key)
            return self._kept[key][1], True
        joined = key in self._running
        if not joined:
            self._running[key] = (asyncio.ensure_future(self._make(key, make, keep)), [])
        task, waiting = self._running[key]
        waiting.append(None)
        try:
            return await asyncio.shield(task), joined
        finally:
            waiting.pop()
            if not waiting and not task.done():
                task.cancel()
                self._running.pop(key, None)

    def _is_kept(self, key: str) -> bool:
        return key in self._kept and self._clock() - self._kept[key][0] < self._seconds

    async def _make(self, key: str, make: Callable[[], Awaitable[T]], keep: Callable[[T], bool]) -> T:
        me = asyncio.current_task()
        try:
            result = await make()
        finally:
            if key in self._running and self._running[key][0] is me:
                del self._running[key]
        if not keep(result):
            return result
        self._kept[key] = (self._clock(), result)
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)
        return result
