"""A limit on requests per minute: one token bucket per caller, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address

MAX_CALLERS = 10_000
"""Maximum number of buckets; beyond it, the least recently active caller is forgotten."""


class RateLimiter:
    """Limits each caller to bursts of `per_minute` requests, refilled at `per_minute` per minute.

    Args:
        per_minute: Requests per minute, at least 1.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._full, self._per_second, self._clock = float(per_minute), per_minute / 60, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def __len__(self) -> int:
        """Returns the number of callers with a bucket."""
        return len(self._buckets)

    def take(self, caller: str) -> float:
        """Takes a token from the caller's bucket; returns 0, or the seconds until one is available."""
        now = self._clock()
        tokens, counted = self._buckets.get(caller, (self._full, now))
        tokens = min(self._full, tokens + (now - counted) * self._per_second)
        wait = max(0.0, (1 - tokens) / self._per_second)
        self._buckets[caller] = (tokens if wait else tokens - 1, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        return wait


def caller_of(host: str) -> str:
    """Returns the key of a client's bucket: its address, or for IPv6 its /64 network, which one host may own."""
    try:
        address = ip_address(host)
    except ValueError:  # a Unix socket, or a name set by a proxy
        return host
    return str(IPv6Network((address, 64), strict=False)) if isinstance(address, IPv6Address) else host
