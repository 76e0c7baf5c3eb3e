"""Access control: API keys, rate limits, CORS and protection against DNS rebinding."""

from __future__ import annotations

import functools
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retriever.filters import filter_of, within
from retriever.wording import counted
from serving.body import refuse
from serving.errors import ApiError
from serving.keys import ApiKeys
from serving.pages import PAGES
from serving.settings import ServingSettings

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

    def headers(self, caller: str) -> dict[str, str]:
        """Returns a caller's remaining quota as RateLimit headers, by the IETF's draft."""
        tokens, _ = self._buckets[caller]
        refilled = math.ceil((self._full - tokens) / self._per_second)
        policy = {"RateLimit-Policy": f'"minute";q={self._full:.0f};w=60'}
        return policy | {"RateLimit": f'"minute";r={int(tokens)};t={refilled}'}


def caller_of(host: str) -> str:
    """Returns the key of a client's bucket: its address, or for IPv6 its /64 network, which one host may own."""
    try:
        address = ip_address(host)
    except ValueError:  # a Unix socket, or a name set by a proxy
        return host
    return str(IPv6Network((address, 64), strict=False)) if isinstance(address, IPv6Address) else host


_OPEN = {*PAGES, "/openapi.json", "/health/live", "/health/ready"}
"""Paths that need no key: load balancers have none, and the pages ask the user for one."""
_FREE = ("GET", "HEAD", "OPTIONS")
"""Methods that are not rate-limited: they are cheap, and the page loads many images for a single answer."""


def with_cors(app: ASGIApp, settings: ServingSettings) -> ASGIApp:
    """Returns `app` with CORS headers for the sites in `cors_origins`.

    This must wrap everything that refuses requests: browsers send preflight requests without a key, and a page can
    read why it was refused only if the refusal has CORS headers too.
    """
    if not settings.cors_origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=settings.cors_origins,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["*"],  # clients add their own, such as `traceparent`; none of them means more than the origin
        expose_headers=["*"],
    )


class AccessMiddleware:
    """Refuses requests that lack a valid key or exceed the rate limit, before reading their bodies.

    Args:
        app: The application to protect.
        settings: Uses the keys, their filters, `hosts` and `requests_per_minute`.
    """

    def __init__(self, app: ASGIApp, settings: ServingSettings) -> None:
        self.app = app
        self._keys = ApiKeys(settings.read_keys, settings.write_keys)
        self._scopes = {digest: filter_of(values) for digest, values in settings.key_filters.items()}
        # DNS rebinding: any site can point its own name at 127.0.0.1 and send requests from the user's browser. Read
        # keys stop it; without them, only the Host header gives it away.
        self._names = None if settings.read_keys else {name.lower() for name in settings.hosts}
        self._per_minute = settings.requests_per_minute
        self._limiter = RateLimiter(self._per_minute) if self._per_minute else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application, or responds with the refusal."""
        if scope["type"] == "http" and scope["path"].removeprefix(scope.get("root_path", "")) not in _OPEN:
            try:
                holder, headers = self._admit(scope)
            except ApiError as error:
                await refuse(error, scope, send)
                return
            with within(self._scopes.get(holder or "", ())):
                await self.app(scope, receive, _with_headers(send, headers))
            return
        await self.app(scope, receive, send)

    def _admit(self, scope: Scope) -> tuple[str | None, dict[str, str]]:
        """Returns the digest of the caller's key, if it needs one, and the response's headers about the rate limit."""
        if self._names is not None and _is_loopback((scope.get("server") or ("",))[0]):
            name = _host_name(Headers(scope=scope).get("host", ""))
            if name not in self._names and _is_of_a_site(name):
                message = f"a local service without keys rejects the host {name[:100]!r}; add it to serving.hosts"
                raise ApiError(421, "unknown_host", message)
        holder = self._keys.holder(scope["method"], Headers(scope=scope).get("authorization", ""))
        if self._limiter is None or scope["method"] in _FREE:
            return holder, {}
        client = scope.get("client")
        caller = holder or caller_of(client[0] if client else "")
        wait = self._limiter.take(caller)
        headers = self._limiter.headers(caller)
        if wait:
            seconds = math.ceil(wait)
            message = f"more than {counted(self._per_minute, 'request')} per minute; try again in {seconds} s"
            raise ApiError(429, "rate_limited", message, headers={"Retry-After": str(seconds), **headers})
        return holder, headers


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Returns `send`, made to add headers to a response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with_headers if headers else send


@functools.lru_cache
def _is_loopback(address: str) -> bool:
    """Returns whether an address, such as 127.0.0.2 or ::ffff:127.0.0.1, is reachable from this machine only."""
    try:
        found = ip_address(address)
    except ValueError:  # the path of a Unix socket
        return False
    return (found.ipv4_mapped or found if isinstance(found, IPv6Address) else found).is_loopback


def _host_name(host: str) -> str:
    """Returns the host name of a Host header in lower case, without port and brackets."""
    name = host.strip().lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


def _is_of_a_site(name: str) -> bool:
    """Returns whether anybody could register this host name: it contains a dot and is not an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return "." in name
    return False
