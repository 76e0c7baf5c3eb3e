"""Makes GET requests to untrusted servers for untrusted content, within the limits for each host."""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.robotparser import RobotFileParser

import httpcore
import httpx

from chat_models.retries import retry_after
from omgm.downloads.guard import PublicNetwork
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings

_REDIRECTS = (301, 302, 303, 307, 308)
_STATUSES = {404: "gone", 410: "gone", 401: "forbidden", 403: "forbidden", 451: "forbidden", 429: "busy"}
_TRANSIENT = (408, 425)


@dataclass(frozen=True, slots=True)
class WebContent:
    """The content at a URL.

    Attributes:
        data: The bytes, without a content encoding.
        content_type: The server's `Content-Type`, "" if it sent none.
        is_cut: Whether the time was over before the end of the content.
        may_keep: Whether the server lets it be kept: its `Cache-Control` says neither `no-store` nor `no-cache`.
    """

    data: bytes
    content_type: str = ""
    is_cut: bool = False
    may_keep: bool = True


class Web:
    """Fetches bytes within the limits of each host, for every hop of a redirect. Use with `async with`.

    It sends no cookies and uses no proxy, since behind one, private addresses could not be detected.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._hosts: dict[str, Host] = {}
        self._headers = [
            ("User-Agent", settings.user_agent),
            ("Accept", "image/*,*/*;q=0.5"),
            ("Accept-Encoding", "identity"),
        ]
        self._timeout = dict.fromkeys(("connect", "read", "write", "pool"), settings.silence_s)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=5.0,
            network_backend=PublicNetwork(settings.allow_private),
        )

    def host(self, url: httpx.URL) -> Host:
        """Returns the host of a URL."""
        place = place_of(url)
        if place not in self._hosts:
            self._hosts[place] = Host(url, self._settings)
        return self._hosts[place]

    async def get(self, url: str, limit: int, permitted: Callable[[httpx.URL], object] = lambda url: None) -> bytes:
        """Returns the bytes at a URL; see `read`."""
        return (await self.read(url, limit, permitted)).data

    async def read(
        self,
        url: str,
        limit: int,
        permitted: Callable[[httpx.URL], object] = lambda url: None,
        enough_s: float | None = None,
    ) -> WebContent:
        """Returns the content at a URL, following redirects.

        Args:
            url: An http or https URL.
            limit: Maximum bytes, both as sent and after decoding any content encoding.
            permitted: Called with the URL of every hop; raises `Failure` if it must not be requested.
            enough_s: Seconds after which what has arrived is returned, as cut; by default only the whole content is.

        Raises:
            Failure: The content could not be fetched.
        """
        target = parse(url)
        for _ in range(self._settings.max_redirects + 1):
            permitted(target)
            answer = await self._hop(target, limit, enough_s)
            if isinstance(answer, WebContent):
                return answer
            try:
                target = parse(str(target.join(answer)))
            except (httpx.InvalidURL, ValueError, Failure) as error:
                raise Failure("redirects", f"to {answer[:200]!r}") from error
        raise Failure("redirects", f"more than {self._settings.max_redirects}")

    async def _hop(self, target: httpx.URL, limit: int, enough_s: float | None) -> WebContent | str:
        """Returns the content, or the target of a redirect."""
        host = self.host(target)
        async with host.turn():
            try:
                async with asyncio.timeout(self._settings.attempt_s):
                    return await self._read(target, host, limit, enough_s)
            except (TimeoutError, httpcore.TimeoutException) as error:
                raise Failure("timeout", type(error).__name__) from error
            except httpcore.ConnectError as error:
                raise Failure("no_connection", str(error)) from error
            except zlib.error as error:
                raise Failure("damaged", f"does not match its Content-Encoding: {error}") from error
            except (httpcore.NetworkError, httpcore.ProtocolError, httpx.InvalidURL) as error:
                raise Failure("broken_off", f"{type(error).__name__}: {error}") from error

    async def _read(self, target: httpx.URL, host: Host, limit: int, enough_s: float | None) -> WebContent | str:
        url = httpcore.URL(
            scheme=target.raw_scheme, host=target.raw_host, port=target.port, target=target.raw_path
        )  # fmt: skip
        extensions = {"timeout": self._timeout}
        async with self._pool.stream("GET", url, headers=self._headers, extensions=extensions) as response:
            headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS:
                return headers.get("location", "")
            if response.status != 200:
                raise _refusal(response.status, headers)
            body = _Body(headers.get("content-encoding", ""), limit)
            is_cut = False
            try:
                async with asyncio.timeout(enough_s):
                    async for chunk in response.aiter_stream():
                        body.add(chunk)
                        await host.pay(len(chunk))
            except TimeoutError:
                if enough_s is None or not body.data:
                    raise
                is_cut = True
            if not is_cut:
                body.end()
            may_keep = not re.search(r"\bno-(?:store|cache)\b", headers.get("cache-control", ""), re.IGNORECASE)
            return WebContent(bytes(body.data), headers.get("content-type", ""), is_cut, may_keep)

    async def __aenter__(self) -> Self:
        """Returns the object, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self._pool.aclose()


class _Body:
    """The bytes of a response as they arrive, decoded; neither form may exceed `limit` bytes."""

    def __init__(self, encoding: str, limit: int) -> None:
        self.data = bytearray()
        self._encoding, self._limit = encoding.strip().lower(), limit
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Failure("damaged", f"Content-Encoding {encoding[:50]!r}, but none was requested")
        self._received = 0
        self._unpacker: zlib._Decompress | None = None

    def add(self, chunk: bytes) -> None:
        """Adds bytes as sent."""
        self._received += len(chunk)
        if self._encoding in ("", "identity"):
            self.data += chunk
        elif chunk:
            if self._unpacker is None:  # some servers send "deflate" without zlib's header, whose first nibble is 8
                is_raw = self._encoding == "deflate" and chunk[0] & 15 != 8
                self._unpacker = zlib.decompressobj(-15 if is_raw else 47)
            self.data += self._unpacker.decompress(chunk, self._limit + 1 - len(self.data))
        if max(len(self.data), self._received) > self._limit:
            raise Failure("too_large", f"more than {self._limit} bytes")

    def end(self) -> None:
        """Raises a `Failure` if the end of compressed content is missing."""
        if self._unpacker is not None and not self._unpacker.eof:
            raise Failure("damaged", "the compressed content is cut short")


def parse(url: str) -> httpx.URL:
    """Parses a URL.

    Raises:
        Failure: It is not an http or https URL, or it contains a user name.
    """
    try:
        target = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise Failure("not_a_url", str(error)) from error
    if target.scheme not in ("http", "https") or not target.host or target.userinfo:
        raise Failure("not_a_url", url[:200])
    return target


def _refusal(status: int, headers: dict[str, str]) -> Failure:
    transient = status >= 500 or status in _TRANSIENT
    name = _STATUSES.get(status, "server_error" if transient else "refused")
    wait = retry_after(headers.get("retry-after")) if name in ("busy", "server_error") else None
    return Failure(name, f"status {status}", wait)


_BURST_S = 1.0


class Host:
    """One host and port, within one event loop."""

    def __init__(self, url: httpx.URL, settings: DownloadSettings) -> None:
        self.place = place_of(url)
        self.given_up = ""
        self._robots: RobotFileParser | None = None
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.per_host)
        self._interval = 1 / settings.per_second
        self._next_start = self._resume = self._paid_until = 0.0
        self._failures = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a request may start; the request is made inside the block."""
        loop = asyncio.get_running_loop()
        async with self._slots:
            while (wait := max(self._resume, self._next_start) - loop.time()) > 0:
                await asyncio.sleep(wait)
            self._next_start = loop.time() + self._interval
            yield

    async def pay(self, count: int) -> None:
        """Waits as long as reading `count` bytes should have taken, with one second of slack."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now) + count * 8e-6 / self._settings.megabits
        await asyncio.sleep(max(0.0, self._paid_until - now - _BURST_S))

    def pause(self, seconds: float) -> None:
        """Starts no further requests for `seconds` seconds."""
        self._resume = max(self._resume, asyncio.get_running_loop().time() + seconds)

    def obey(self, robots: RobotFileParser) -> None:
        """Follows a robots.txt from now on, including its Crawl-delay."""
        self._robots = robots
        delay = robots.crawl_delay(self._settings.user_agent)
        self._interval = max(self._interval, float(delay or 0))

    def check_robots(self, url: httpx.URL) -> None:
        """Raises a `Failure` if the host's robots.txt is known and forbids a URL."""
        if self._robots is not None and not self._robots.can_fetch(self._settings.user_agent, str(url)):
            raise Failure("robots", self.place)

    def answered(self) -> None:
        """Records that the host works."""
        self._failures = 0

    def failed(self, detail: str) -> None:
        """Records an image that failed after all attempts because of the host; gives up after too many in a row."""
        self._failures += 1
        if self._failures >= self._settings.give_up_after:
            self.give_up(f"{self._failures} failures in a row, the last: {detail}")

    def give_up(self, detail: str) -> None:
        """Makes no more requests to the host in this run."""
        self.given_up = self.given_up or detail


def place_of(url: httpx.URL) -> str:
    """Returns `host` or `host:port` of a URL."""
    return url.netloc.decode("ascii")
