"""Makes GET requests to untrusted servers for untrusted content."""

from __future__ import annotations

import asyncio
import http.cookiejar
import ssl
import zlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

import httpx

from llm.retries import retry_after
from omgm.downloads.images.hosts import Host, check_public, place_of
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings

_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK = 1 << 16
_STATUSES = {404: "gone", 410: "gone", 401: "forbidden", 403: "forbidden", 451: "forbidden", 429: "busy"}
_TRANSIENT = (408, 425)


class Web:
    """Fetches bytes within the limits of each host, for every hop of a redirect. Use with `async with`.

    Args:
        settings: The limits.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._hosts: dict[str, Host] = {}
        no_cookies = http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        self._client = httpx.AsyncClient(
            headers={"User-Agent": settings.user_agent, "Accept": "image/*,*/*;q=0.5", "Accept-Encoding": "identity"},
            cookies=no_cookies,
            trust_env=False,  # behind a proxy, private addresses could not be detected
            timeout=settings.silence_s,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            verify=ssl.create_default_context(),
        )

    def host(self, url: httpx.URL) -> Host:
        """Returns the host of a URL."""
        place = place_of(url)
        if place not in self._hosts:
            self._hosts[place] = Host(url, self._settings)
        return self._hosts[place]

    async def get(self, url: str, limit: int, permitted: Callable[[httpx.URL], object] = lambda url: None) -> bytes:
        """Returns the content at a URL, following redirects.

        Args:
            url: An http or https URL.
            limit: Maximum bytes, both as sent and after decoding any content encoding.
            permitted: Called with the URL of every hop; raises `Failure` if it must not be requested.

        Raises:
            Failure: The content could not be fetched.
        """
        target = parse(url)
        for _ in range(self._settings.max_redirects + 1):
            permitted(target)
            answer = await self._hop(target, limit)
            if isinstance(answer, bytes):
                return answer
            try:
                target = parse(str(target.join(answer)))
            except (httpx.InvalidURL, ValueError, Failure) as error:
                raise Failure("redirects", f"to {answer[:200]!r}") from error
        raise Failure("redirects", f"more than {self._settings.max_redirects}")

    async def _hop(self, target: httpx.URL, limit: int) -> bytes | str:
        """Returns the content, or the target of a redirect."""
        host = self.host(target)
        async with host.turn():
            try:
                async with asyncio.timeout(self._settings.attempt_s):
                    await host.check_address()
                    return await self._read(target, host, limit)
            except (TimeoutError, httpx.TimeoutException) as error:
                raise Failure("timeout", type(error).__name__) from error
            except httpx.ConnectError as error:
                raise Failure("no_connection", str(error)) from error
            except zlib.error as error:
                raise Failure("damaged", f"does not match its Content-Encoding: {error}") from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Failure("broken_off", f"{type(error).__name__}: {error}") from error

    async def _read(self, target: httpx.URL, host: Host, limit: int) -> bytes | str:
        async with self._client.stream("GET", target) as response:
            self._check_peer(response, host)
            if response.status_code in _REDIRECTS:
                return str(response.headers.get("location", ""))
            if response.status_code != 200:
                raise _refusal(response)
            unpack = _unpacker(response.headers.get("content-encoding", ""))
            data, received = bytearray(), 0
            async for chunk in response.aiter_raw(_CHUNK):
                received += len(chunk)
                data += unpack.decompress(chunk, limit + 1 - len(data)) if unpack else chunk
                if max(len(data), received) > limit:
                    raise Failure("too_large", f"more than {limit} bytes")
                await host.pay(len(chunk))
            if unpack and not unpack.eof:
                raise Failure("damaged", "the compressed content is cut short")
            return bytes(data)

    @staticmethod
    def _check_peer(response: httpx.Response, host: Host) -> None:
        """Checks the address that responded, since a name may resolve differently the second time."""
        stream = response.extensions.get("network_stream")
        peer = stream.get_extra_info("server_addr") if stream is not None else None
        if peer and not host.allowed_private:
            check_public(str(peer[0]), host.place)

    async def __aenter__(self) -> Self:
        """Returns the object, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes the connections."""
        await self._client.aclose()


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


def _unpacker(encoding: str) -> zlib._Decompress | None:
    """Returns a decompressor for a Content-Encoding, or `None` without one. httpx's own has no size limit."""
    if encoding.strip().lower() in ("", "identity"):
        return None
    if encoding.strip().lower() in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=47)  # accepts zlib and gzip headers
    raise Failure("damaged", f"Content-Encoding {encoding[:50]!r}, but none was requested")


def _refusal(response: httpx.Response) -> Failure:
    status = response.status_code
    transient = status >= 500 or status in _TRANSIENT
    name = _STATUSES.get(status, "server_error" if transient else "refused")
    wait = retry_after(response.headers.get("retry-after")) if name in ("busy", "server_error") else None
    return Failure(name, f"status {status}", wait)
