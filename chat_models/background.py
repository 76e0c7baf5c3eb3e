"""An event loop in its own thread, so that blocking code and notebooks can run coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_LONGEST_END_S = 10.0
"""Maximum seconds that closing waits for what is running."""


class BackgroundLoop:
    """Runs coroutines from any thread or event loop in a single event loop.

    The connections of a chat client belong to the loop in which it was first used, so all its calls must run in that
    loop. The thread starts with the first call, never keeps the interpreter from exiting, and ends when the object is
    no longer used. A forked process has none of its parent's threads, so it starts a loop of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._dropped: weakref.finalize[..., BackgroundLoop] | None = None
        _ALL.add(self)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedules a coroutine and returns the future of its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="omgm-loop", daemon=True)
                self._thread.start()
                self._dropped = weakref.finalize(self, _end, self._loop)
                self._dropped.atexit = False
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancels what is running, stops the loop and waits for its thread; a later call starts a new one.

        Raises:
            TimeoutError: Something does not end although it is canceled.
        """
        with self._lock:
            loop, thread, dropped = self._loop, self._thread, self._dropped
            self._loop, self._thread, self._dropped = None, None, None
        if loop is None or thread is None:
            return
        if dropped is not None:
            dropped.detach()
        _end(loop)
        thread.join(_LONGEST_END_S)
        if thread.is_alive():
            raise TimeoutError(f"the event loop is still running {_LONGEST_END_S:g} s after it was stopped")

    def _forget(self) -> None:
        """Forgets the loop, of which a forked process has only a copy without the thread, and the lock."""
        if self._dropped is not None:
            self._dropped.detach()
        self._lock, self._loop, self._thread, self._dropped = threading.Lock(), None, None, None


_ALL: weakref.WeakSet[BackgroundLoop] = weakref.WeakSet()


def _forget_all() -> None:
    for loop in list(_ALL):
        loop._forget()


os.register_at_fork(after_in_child=_forget_all)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Makes a loop end, from any thread; its own closes it."""
    loop.call_soon_threadsafe(lambda: loop.create_task(_stop(loop)))


async def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels all other tasks, for whose results threads would wait forever; stops the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()
