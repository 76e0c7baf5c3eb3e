"""Clients that send slowly: the protocol on a clock that the tests turn, and on a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from serving.protocol import protocol_of
from serving.settings import ServingSettings
from tests.fakes.service import served

LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n"


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.over = at, call, False

    def cancel(self) -> None:
        self.over = True


class Loop:
    """As much of an event loop as the protocol needs; `turn` lets time pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, call))
        return self.timers[-1]

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        with pytest.raises(StopIteration):  # it waits for nothing
            work.send(None)
        return cast(asyncio.Future[None], Finished())

    def turn(self, seconds: float) -> None:
        self.now += seconds
        for timer in [timer for timer in self.timers if not timer.over and timer.at <= self.now]:
            timer.over = True
            timer.call()


class Finished:
    def add_done_callback(self, call: object) -> None:
        pass


class Transport:
    def __init__(self) -> None:
        self.sent, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        return None

    def resume_reading(self) -> None:
        pass


async def begin(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the beginning of an answer."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"ok", "more_body": True})


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Connection:
    """One connection with a limit of 10 s on headers and 60 s on the rest of a body."""

    def __init__(self, app: ASGIApp = answer) -> None:
        self.loop, self.transport = Loop(), Transport()
        config = uvicorn.Config(app, lifespan="off", log_level="error", proxy_headers=False)
        config.load()
        build = cast(Callable[..., Any], protocol_of(ServingSettings()))
        self.protocol = build(config=config, server_state=ServerState(), app_state={}, _loop=self.loop)
        self.protocol.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        self.protocol.data_received(data)
        self.loop.turn(0)


def test_headers_that_do_not_end() -> None:
    connection = Connection()
    connection.receive(b"POST /answer HTTP/1.1\r\n")
    for _ in range(9):  # a header every second does not help
        connection.loop.turn(1)
        connection.receive(b"X-More: 1\r\n")
    assert not connection.transport.closed
    connection.loop.turn(1)
    assert connection.transport.closed
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n") and b"connection: close" in head
    error = {"message": "the headers took longer than 10 s", "type": "invalid_request_error", "param": None}
    assert json.loads(text) == {"error": error | {"code": "upload_timeout"}}


def test_headers_that_are_too_long() -> None:
    connection = Connection()
    connection.receive(b"POST /answer HTTP/1.1\r\nX-Long: ")
    for _ in range(64):
        connection.receive(b"x" * 1024)
    assert not connection.transport.closed
    connection.receive(b"x" * 1024)
    assert connection.transport.closed
    assert connection.transport.sent.startswith(b"HTTP/1.1 431 ") and b'"headers_too_long"' in connection.transport.sent


def test_a_client_that_says_nothing() -> None:
    connection = Connection()
    connection.loop.turn(10)
    assert connection.transport.closed and connection.transport.sent == b""


def test_the_headers_of_a_second_request() -> None:
    connection = Connection()
    connection.receive(LIVE + b"\r\n")
    connection.loop.turn(4)
    connection.receive(LIVE)
    connection.loop.turn(9)
    assert not connection.transport.closed
    connection.loop.turn(1)
    assert connection.transport.closed and b"HTTP/1.1 408 " in connection.transport.sent


def test_the_headers_of_a_second_request_beside_the_answer_to_the_first() -> None:
    connection = Connection(begin)
    connection.receive(LIVE + b"\r\n" + LIVE)
    connection.loop.turn(10)
    assert connection.transport.closed and connection.transport.sent.endswith(b"ok")  # and no 408 inside of it


def test_the_rest_of_a_body_that_nobody_reads() -> None:
    connection = Connection()
    connection.receive(LIVE + b"Content-Length: 1000000\r\n\r\n")
    for _ in range(60):
        assert not connection.transport.closed
        connection.receive(b" ")
        connection.loop.turn(1)
    assert connection.transport.closed and connection.transport.sent.endswith(b"ok")  # nothing after the answer


def test_a_connection_that_is_over_has_no_limit() -> None:
    connection = Connection()
    connection.protocol.connection_lost(None)
    connection.loop.turn(1000)
    assert all(timer.over for timer in connection.loop.timers)


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port or 80), timeout=20) as sock:
        yield sock


@pytest.mark.parametrize(
    ("settings", "head", "piece"),
    [
        (ServingSettings(header_timeout_s=0.3), LIVE, b"X-More: 1\r\n"),
        (ServingSettings(upload_timeout_s=0.3), LIVE + b"Content-Length: 1000000\r\n\r\n", b" "),
    ],
    ids=["headers", "body"],
)
def test_a_client_that_trickles(tmp_path: Path, settings: ServingSettings, head: bytes, piece: bytes) -> None:
    with served(tmp_path, settings) as world, connected(world.url) as sock:
        deadline = time.monotonic() + 20
        with pytest.raises(OSError):  # closed
            sock.sendall(head)
            while time.monotonic() < deadline:
                sock.sendall(piece)
                time.sleep(0.05)
