"""The filtering proxy: requests, tunnels and refusals, tested with raw sockets and with httpx."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import httpx
import pytest

from omgm.web_access import public_connect
from search_agents.browsing.proxy import Connect, FilteringProxy
from tests.fakes.web import FakeWeb, serve_web

T = TypeVar("T")


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    with serve_web({"a.html": b"<p>a</p>"}) as pages:
        yield pages


def through(connect: Connect, ask: Callable[[int], Awaitable[T]]) -> T:
    """Returns the result of `ask` for a proxy's port."""

    async def run() -> T:
        proxy = FilteringProxy(connect)
        port = await proxy.start()
        try:
            return await asyncio.wait_for(ask(port), 30)
        finally:
            await proxy.aclose()

    return asyncio.run(run())


async def spoken(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    answer = await reader.read()
    writer.close()
    return answer


def test_a_request_is_forwarded(web: FakeWeb) -> None:
    async def ask(port: int) -> list[httpx.Response]:
        async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{port}", trust_env=False) as client:
            return [await client.get(web.url("page/a.html?q=1")) for _ in range(2)]

    answers = through(public_connect(frozenset({web.place})), ask)
    assert [answer.text for answer in answers] == ["<p>a</p>"] * 2
    path, headers = web.log[0]
    assert path == "/page/a.html?q=1"
    assert headers["connection"] == "close" and "proxy-connection" not in headers


def test_a_tunnel(web: FakeWeb) -> None:
    request = f"CONNECT {web.place} HTTP/1.1\r\nHost: x\r\n\r\n"
    inner = f"GET /page/a.html HTTP/1.1\r\nHost: {web.place}\r\n\r\n"

    async def ask(port: int) -> bytes:
        return await spoken(port, (request + inner).encode())

    answer = through(public_connect(frozenset({web.place})), ask)
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200") and answer.endswith(
        b"<p>a</p>"
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"]
)
def test_private_addresses_are_refused(web: FakeWeb, host: str) -> None:
    async def ask(port: int) -> list[bytes]:
        place = f"{host}:{web.port}"
        return [
            await spoken(port, f"CONNECT {place} HTTP/1.1\r\n\r\n".encode()),
            await spoken(port, f"GET http://{place}/page/a.html HTTP/1.1\r\n\r\n".encode()),
        ]

    for answer in through(public_connect(), ask):
        assert answer == b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert web.log == []


def test_a_second_request_on_a_connection_does_not_reach_anybody(web: FakeWeb) -> None:
    """It could be for another host, which has not been checked."""
    one = f"GET {web.url('page/a.html')} HTTP/1.1\r\n\r\n"

    async def ask(port: int) -> bytes:
        return await spoken(port, (one + "GET http://169.254.169.254/secret HTTP/1.1\r\n\r\n").encode())

    assert through(public_connect(frozenset({web.place})), ask).count(b"HTTP/1.1") == 1
    assert web.paths() == ["/page/a.html"]


@pytest.mark.parametrize(
    "head",
    ["GET / HTTP/1.1", "GET ftp://a/ HTTP/1.1", "nonsense", "CONNECT a HTTP/1.1", "CONNECT a:0 HTTP/1.1",
     "GET http://user@a/ HTTP/1.1", "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked"],
)  # fmt: skip
def test_other_requests_are_refused(head: str) -> None:
    async def never(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise AssertionError(host)

    async def ask(port: int) -> bytes:
        return await spoken(port, f"{head}\r\n\r\n".encode())

    assert through(never, ask).startswith(b"HTTP/1.1 400 ")


def test_a_host_that_does_not_exist_is_told() -> None:
    async def lost(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise OSError("no such host")

    async def ask(port: int) -> bytes:
        return await spoken(port, b"CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n")

    assert through(lost, ask).startswith(b"HTTP/1.1 502 ")
