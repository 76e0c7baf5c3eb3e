"""A loopback proxy for all connections of a browser, so that one function decides which hosts it may reach."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Takes a host and a port and opens a connection. It raises `ValueError` for a host that must not be reached, and it
must connect to the address that it checked, because a name may resolve differently the second time."""

_HEAD_BYTES = 64 << 10
_HEAD_S, _CONNECT_S = 10.0, 10.0
_CHUNK = 1 << 16
MAX_BYTES = 64 << 20
"""Maximum bytes per connection and direction."""


class FilteringProxy:
    """An HTTP proxy within one event loop: `CONNECT` tunnels, and plain requests, one per connection.

    Only `connect` resolves names: a browser behind a proxy does not.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Starts listening on loopback and returns the port."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, limit=_HEAD_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        """Stops listening and aborts open connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the browser or the server hung up, or the proxy is being closed
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        try:
            host, port, forwarded, body = _target(head)
        except ValueError:
            await _answer(writer, "400 Bad Request")
            return
        try:
            upstream = await asyncio.wait_for(self._connect(host, port), _CONNECT_S)
        except (ValueError, OSError, TimeoutError) as error:
            await _answer(writer, "403 Forbidden" if isinstance(error, ValueError) else "502 Bad Gateway")
            return
        try:
            if forwarded:
                upstream[1].write(forwarded)
            else:
                await _answer(writer, "200 Connection established")
            sending = asyncio.ensure_future(_copy(reader, upstream[1], body))
            try:
                await _copy(upstream[0], writer, MAX_BYTES)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            upstream[1].close()


def _target(head: bytes) -> tuple[str, int, bytes, int]:
    """Returns the host, the port, the head to forward (empty for a tunnel), and the length of the body in bytes.

    Raises:
        ValueError: The request is not one that a proxy serves.
    """
    request, *headers = head[:-4].decode("latin-1").split("\r\n")
    method, target, version = request.split(" ")
    if method == "CONNECT":
        return *_place(target, None), b"", MAX_BYTES
    scheme, separator, rest = target.partition("://")
    if scheme.lower() != "http" or not separator:
        raise ValueError(target)
    place, slash, path = rest.partition("/")
    kept, body = [], 0
    for header in headers:
        name = header.partition(":")[0].strip().lower()
        if name == "transfer-encoding":
            raise ValueError("a body of unknown length")
        if name == "content-length":
            body = int(header.partition(":")[2])
        if name not in ("connection", "proxy-connection", "keep-alive", "proxy-authorization"):
            kept.append(header)
    # One request per connection: a second one could be for another host, which would not be checked.
    lines = [f"{method} {slash}{path} {version}" if slash else f"{method} / {version}", *kept, "Connection: close"]
    return *_place(place, 80), ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body


def _place(place: str, default: int | None) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        if default is None:
            raise ValueError(f"{place} has no port")
        host, port = place, str(default)
    if not host or "@" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(place)
    return host.strip("[]"), int(port)


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    length = "" if status.startswith("200") else "Content-Length: 0\r\nConnection: close\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{length}\r\n".encode())
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
    """Copies at most `limit` bytes, until the sender closes the connection."""
    while limit > 0 and (data := await reader.read(min(_CHUNK, limit))):
        limit -= len(data)
        writer.write(data)
        await writer.drain()
