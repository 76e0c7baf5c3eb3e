"""Connections to the service's protocol: one without a network, on a clock that tests control, and a real one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from serving.errors import ApiError
from serving.overload import Overload
from serving.protocol import protocol_of
from serving.settings import ServingSettings

LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
"""What Java's HttpClient adds to its first request."""
REFUSED = b"POST /answer?a=b HTTP/1.1\r\nHost: a\r\n"


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.over = at, call, False

    def cancel(self) -> None:
        self.over = True


class Loop:
    """The parts of an event loop that the protocol needs; `turn` lets time pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.tasks: list[Coroutine[Any, Any, None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, call))
        return self.timers[-1]

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        self.tasks.append(work)
        return cast(asyncio.Future[None], Finished())

    def turn(self, seconds: float) -> None:
        self.now += seconds
        while self.tasks:
            with pytest.raises(StopIteration):  # it waits for nothing
                self.tasks.pop(0).send(None)
        for timer in [timer for timer in self.timers if not timer.over and timer.at <= self.now]:
            timer.over = True
            timer.call()


class Finished:
    def add_done_callback(self, call: object) -> None:
        pass


class Transport:
    def __init__(self) -> None:
        self.sent, self.ended, self.closed = b"", False, False

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.sent += data

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def begin(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the start of a response."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b"ok", "more_body": True})


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Responds without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Busy:
    """An `Overload` that refuses every POST, or none while `free` is true."""

    free = False

    def refuse_by_headers(self, scope: Scope, path: str) -> ApiError | None:
        if self.free or scope["method"] != "POST":
            return None
        return ApiError(429, "queue_full", path, headers={"Retry-After": "3", "x-request-id": "run-7"})


class Connection:
    """A connection with a limit of 10 s for headers and 60 s for the rest of a body."""

    def __init__(self, app: ASGIApp = answer, overload: Busy | None = None) -> None:
        self.loop, self.transport = Loop(), Transport()
        config = uvicorn.Config(app, lifespan="off", log_level="critical", ws="none", proxy_headers=False)
        config.load()
        build = cast(Callable[..., Any], protocol_of(ServingSettings(), cast(Overload, overload)))
        self.protocol = build(config=config, server_state=ServerState(), app_state={}, _loop=self.loop)
        self.protocol.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        self.protocol.data_received(data)
        self.loop.turn(0)


def address_of(url: str) -> tuple[str, int]:
    """Returns the host and port of a URL."""
    address = httpx.URL(url)
    return address.host, address.port or 80


def connected(url: str) -> socket.socket:
    """Returns a socket connected to the server of a URL."""
    return socket.create_connection(address_of(url), timeout=20)
