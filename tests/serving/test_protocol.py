"""Clients that send slowly: the protocol on a clock that the tests turn, and on a real server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from serving.errors import ApiError
from serving.overload import Overload
from serving.protocol import protocol_of
from serving.settings import ServingSettings
from tests.fakes.service import SMALL, body, full, served, wait_until

LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
"""What Java's HttpClient adds to its first request."""


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


class Busy:
    """An `Overload` that refuses every POST, or none while it is `free`."""

    free = False

    def refuse_by_headers(self, scope: Scope, path: str) -> ApiError | None:
        if self.free or scope["method"] != "POST":
            return None
        return ApiError(429, "queue_full", path, headers={"Retry-After": "3", "x-request-id": "run-7"})


class Connection:
    """One connection with a limit of 10 s on headers and 60 s on the rest of a body."""

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


REFUSED = b"POST /answer?a=b HTTP/1.1\r\nHost: a\r\n"


def test_a_refusal_by_headers() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Content-Length: 8\r\n\r\nonly")
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 429 Too Many Requests" and not any(b"connection" in line for line in lines)
    assert {b"retry-after: 3", b"x-request-id: run-7", b"content-type: application/json"} <= set(lines)
    assert b"content-length: %d" % len(text) in lines and json.loads(text)["error"]["message"] == "/answer"
    connection.receive(b"four" + LIVE + b"\r\n")  # the rest of the body, and the next request
    assert connection.transport.sent.endswith(b"ok") and not connection.transport.closed


def test_refusals_one_after_the_other_on_a_kept_connection() -> None:
    busy = Busy()
    connection = Connection(overload=busy)
    connection.receive((REFUSED + b"Content-Length: 4\r\n\r\nbody") * 3)
    assert connection.transport.sent.count(b"HTTP/1.1 429 ") == 3
    busy.free = True
    connection.receive(REFUSED + b"Content-Length: 4\r\n\r\nbody")
    assert connection.transport.sent.endswith(b"ok") and not connection.transport.closed
    connection.loop.turn(5)  # uvicorn's time between two requests
    assert connection.transport.closed


def test_a_refusal_before_a_request_in_the_same_chunk_ends_no_answer() -> None:
    connection = Connection(begin, Busy())
    connection.receive(REFUSED + b"Content-Length: 0\r\n\r\n" + LIVE + b"\r\n")
    assert connection.transport.sent.endswith(b"ok")
    assert all(timer.over for timer in connection.loop.timers)  # uvicorn's time between two requests among them


@pytest.mark.parametrize(
    "headers",
    [
        b"Connection: close\r\nContent-Length: 9",
        b"Expect: 100-continue\r\nContent-Length: 9",  # whether its body comes is unknown, so nothing can follow
        b"Content-Length: 40000000",
    ],
)
def test_a_refusal_that_closes_the_connection_waits_for_the_body(headers: bytes) -> None:
    """Unread bytes would reset it, and the client could lose the answer."""
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + headers + b"\r\n\r\n")
    assert b"HTTP/1.1 429 " in connection.transport.sent and b"\r\nconnection: close\r\n" in connection.transport.sent
    assert b"100 Continue" not in connection.transport.sent
    connection.loop.turn(1.9)
    assert not connection.transport.closed
    connection.receive(b"9 bytes..")
    connection.loop.turn(0.1)
    assert connection.transport.closed


def test_a_refusal_waits_no_longer_than_for_the_whole_body() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Connection: close\r\nContent-Length: 4\r\n\r\nbod")
    assert not connection.transport.closed
    connection.receive(b"y")
    assert connection.transport.closed


def test_a_refused_body_that_trickles() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Content-Length: 1000000\r\n\r\n")
    for _ in range(60):
        assert not connection.transport.closed
        connection.receive(b" ")
        connection.loop.turn(1)
    assert connection.transport.closed


def test_a_refused_body_of_unknown_length() -> None:
    """The connection is kept, unless more comes than is worth reading."""
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
    connection.receive(b"0\r\n\r\n" + LIVE + b"\r\n")
    assert connection.transport.sent.endswith(b"ok") and not connection.transport.closed
    connection.receive(REFUSED + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(32):
        connection.receive(b"100000\r\n" + bytes(2**20) + b"\r\n")
    assert not connection.transport.closed
    connection.receive(b"1\r\n.\r\n")
    assert connection.transport.closed


def test_the_headers_after_a_refusal_have_a_limit() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Content-Length: 0\r\n\r\n" + LIVE)
    connection.loop.turn(10)
    assert connection.transport.closed and b"HTTP/1.1 408 " in connection.transport.sent


def test_a_client_that_asks_before_it_sends_is_refused_or_told_to_continue(tmp_path: Path) -> None:
    head = b"POST /answer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body())
    with served(tmp_path, SMALL) as world:
        with full(world), connected(world.url) as sock:
            sock.sendall(head)
            assert sock.recv(1024).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        wait_until(lambda: httpx.get(f"{world.url}/health/ready", verify=False).json()["waiting"] == 0)
        with connected(world.url) as sock:
            sock.sendall(head)
            assert sock.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(body())
            assert sock.recv(1024).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "target",
    [
        "/answer?a=b",
        "/%61nswer",
        "http://a/answer",
        "http://a/answer?a=b",
        "/answer#a",
        "/answer/",
        "/v1/models",
        "//answer",
    ],
)
def test_a_path_is_refused_however_it_is_written(tmp_path: Path, target: str) -> None:
    """By the protocol or by the middleware: a full service lets in no request that would cost the models time."""
    with served(tmp_path, SMALL) as world, full(world), connected(world.url) as sock:
        sock.sendall(f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        status = sock.recv(4096).split()[1]
    assert status == {"/answer/": b"307", "/v1/models": b"405", "//answer": b"404"}.get(target, b"429")


@pytest.mark.parametrize("line", [b"answer me", b"POST http://a HTTP/1.1\r\nHost: a"])
def test_what_is_not_http_gets_an_error_in_the_shape_of_all(line: bytes) -> None:
    connection = Connection()
    connection.receive(line + b"\r\n\r\n")
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n") and connection.transport.closed
    assert json.loads(text)["error"]["code"] == "malformed_http"


@pytest.mark.parametrize("headers", [b"", b"Host: a\r\nHost: a\r\n", UPGRADE, b"Content-Length: 4\r\n"])
def test_a_request_names_one_host(headers: bytes) -> None:
    for overload in (None, Busy()):
        connection = Connection(overload=overload)
        connection.receive(b"POST /answer HTTP/1.1\r\n" + headers + b"\r\nbody")
        head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n") and connection.transport.closed
        message = f"a request must have one Host header, got {headers.count(b'Host: ')}"
        fields = {"message": message, "type": "invalid_request_error", "param": None, "code": "malformed_http"}
        assert json.loads(text) == {"error": fields}


@pytest.mark.parametrize("received", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost:\r\n\r\n"])
def test_a_host_may_be_empty_and_before_http_1_1_absent(received: bytes) -> None:
    connection = Connection()
    connection.receive(received)
    assert connection.transport.sent.startswith(b"HTTP/1.1 200 OK\r\n")


def test_what_is_not_http_ends_no_answer_with_another() -> None:
    connection = Connection(begin)
    connection.receive(LIVE + b"\r\nnonsense\r\n\r\n")
    assert connection.transport.sent.endswith(b"ok") and connection.transport.closed


FRAMINGS = {
    b"Content-Length": lambda text: b"Content-Length: %d\r\n\r\n%s" % (len(text), text),
    b"Transfer-Encoding": lambda text: (
        b"Transfer-Encoding: chunked\r\n\r\n9\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (text[:9], len(text) - 9, text[9:])
    ),
}


@pytest.mark.parametrize("framed", FRAMINGS.values(), ids=("length", "chunked"))
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_refused_request_may_ask_for_an_upgrade(framed: Callable[[bytes], bytes], size: int) -> None:
    """Its body is thrown away like any other, not taken for a request, however the packets are cut."""
    connection = Connection(overload=Busy())
    sent = (REFUSED + UPGRADE + framed(LIVE + b"\r\n")) * 2 + LIVE + UPGRADE + b"\r\n"
    for start in range(0, len(sent), size):
        connection.receive(sent[start : start + size])
    assert re.findall(rb"HTTP/1.1 (\d+)", connection.transport.sent) == [b"429", b"429", b"200"]
    assert not connection.transport.closed


@pytest.mark.parametrize("framed", FRAMINGS.values(), ids=("length", "chunked"))
@pytest.mark.parametrize("size", [150, 100_000])
def test_an_answer_to_a_request_that_asks_for_an_upgrade(
    tmp_path: Path, framed: Callable[[bytes], bytes], size: int
) -> None:
    ask = b"POST /answer HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    upgraded, plain = ask + UPGRADE + framed(body()), ask + framed(body())
    websocket = LIVE + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
    sent = upgraded + plain + upgraded + websocket  # pipelined
    with served(tmp_path) as world, connected(world.url) as sock, sock.makefile("rb") as replies:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            sock.sendall(sent[start : start + size])
            time.sleep(0.001)
        assert [reply(replies)["answer"] for _ in range(3)] == ["1848"] * 3
        assert reply(replies) == {"status": "live"}
        sock.sendall(upgraded)  # and the connection is still in order
        assert reply(replies)["answer"] == "1848"


def reply(replies: BinaryIO) -> Any:
    """Returns the JSON of the next answer of a connection, which must be a good one."""
    assert replies.readline() == b"HTTP/1.1 200 OK\r\n"
    lines = iter(replies.readline, b"\r\n")
    headers = dict(line.lower().rstrip().split(b": ", 1) for line in lines)
    return json.loads(replies.read(int(headers[b"content-length"])))


@pytest.mark.parametrize("old", [b"HTTP/1.1", b"Connection: "])
def test_an_upgrade_of_a_connection_that_ends_is_ignored(old: bytes) -> None:
    connection = Connection()
    new = {b"HTTP/1.1": b"HTTP/1.0", b"Connection: ": b"Connection: close, "}[old]
    connection.receive((LIVE + UPGRADE).replace(old, new) + b"\r\n" + LIVE + b"\r\n")
    assert connection.transport.sent.count(b"HTTP/1.1 200") == 1 and connection.transport.closed


@pytest.mark.parametrize("target", [b"a:80", b"/answer"])
def test_a_tunnel_is_refused(target: bytes) -> None:
    connection = Connection(begin)
    connection.receive(b"CONNECT " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n" + LIVE + b"\r\n")
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and connection.transport.closed
    assert json.loads(text)["error"]["code"] == "malformed_http"


def test_an_upgrade_without_a_body_is_ignored() -> None:
    connection = Connection()
    for _ in range(2):
        connection.receive(LIVE + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert connection.transport.sent.count(b"HTTP/1.1 200 OK") == 2 and not connection.transport.closed


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
