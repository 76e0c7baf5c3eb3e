"""A limit on requests per minute: one token bucket for each caller, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address

MAX_CALLERS = 10_000
"""Callers that are remembered; beyond them, whoever has been silent for longest is forgotten."""


class RateLimiter:
    """Lets each caller make `per_minute` requests at once, and regain as many in a minute.

    Args:
        per_minute: Requests per minute, at least 1.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._full, self._per_second, self._clock = float(per_minute), per_minute / 60, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def __len__(self) -> int:
        """Returns the number of callers that are remembered."""
        return len(self._buckets)

    def take(self, caller: str) -> float:
        """Takes a token of the caller's bucket; returns 0, or the seconds until there is one."""
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
    """Returns the key under which a client's requests are counted: of IPv6 its /64 network, which one host may own."""
    try:
        address = ip_address(host)
    except ValueError:  # a Unix socket, or a name that a proxy gave
        return host
    return str(IPv6Network((address, 64), strict=False)) if isinstance(address, IPv6Address) else host
