"""Computes ahead in threads, in order: for work that waits for a disk or releases the GIL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")
T = TypeVar("T")

_THREADS = 16


def map_ahead(
    function: Callable[[T], R], items: Iterable[T], ahead: int, threads: int = _THREADS
) -> Generator[R, None, None]:
    """Yields `function(item)` in order, computed in threads up to `ahead` items in advance.

    This helps if `function` waits for a disk or releases the GIL, as Pillow does while it decodes and resizes. If
    `function` raises for an item, the iterator raises at that item. Closing the iterator cancels calls that have not
    started.
    """
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(min(threads, os.cpu_count() or 1), "ahead")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
