"""Clients that send slowly: the protocol on a clock controlled by the tests, and on a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serving.protocol import protocol_of
from serving.settings import ServingSettings
from tests.fakes.connection import LIVE, REFUSED, UPGRADE, Busy, Connection, begin, connected
from tests.fakes.service import SMALL, body, full, served, wait_until


def lingers(connection: Connection) -> bool:
    """Returns whether the answer has ended, and the connection is closed two seconds later."""
    ended = connection.transport.ended and not connection.transport.closed
    connection.loop.turn(1.9)
    ended = ended and not connection.transport.closed
    connection.loop.turn(0.1)
    return ended and connection.transport.closed


def test_headers_that_do_not_end() -> None:
    connection = Connection()
    connection.receive(b"POST /answer HTTP/1.1\r\n")
    for _ in range(9):  # a header every second does not help
        connection.loop.turn(1)
        connection.receive(b"X-More: 1\r\n")
    assert not connection.transport.ended
    connection.loop.turn(1)
    assert lingers(connection)
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n") and b"connection: close" in head
    error = {"message": "the headers took longer than 10 s", "type": "invalid_request_error", "param": None}
    assert json.loads(text) == {"error": error | {"code": "upload_timeout"}}


def test_headers_that_are_too_long() -> None:
    connection = Connection()
    connection.receive(b"POST /answer HTTP/1.1\r\nX-Long: ")
    for _ in range(64):
        connection.receive(b"x" * 1024)
    assert not connection.transport.ended
    for _ in range(2):
        connection.receive(b"x" * 1024)
    assert lingers(connection)
    assert connection.transport.sent.startswith(b"HTTP/1.1 431 ") and b'"headers_too_long"' in connection.transport.sent


def test_what_comes_after_an_error_is_thrown_away_up_to_a_limit() -> None:
    connection = Connection()
    connection.receive(b"answer me\r\n\r\n")
    sent = connection.transport.sent
    connection.receive(LIVE + b"\r\n")
    for _ in range(31):
        connection.receive(bytes(2**20))
    assert connection.transport.sent == sent and not connection.transport.closed
    connection.receive(bytes(2**20))
    assert connection.transport.closed


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
    assert not connection.transport.ended
    connection.loop.turn(1)
    assert lingers(connection) and b"HTTP/1.1 408 " in connection.transport.sent


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
    """Unread bytes would reset the connection, and the client could lose the response."""
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + headers + b"\r\n\r\n")
    assert b"HTTP/1.1 429 " in connection.transport.sent and b"\r\nconnection: close\r\n" in connection.transport.sent
    assert b"100 Continue" not in connection.transport.sent
    connection.receive(b"9 bytes..")
    assert lingers(connection)


def test_a_refused_body_that_trickles() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Content-Length: 1000000\r\n\r\n")
    for _ in range(60):
        assert not connection.transport.closed
        connection.receive(b" ")
        connection.loop.turn(1)
    assert connection.transport.closed


def test_a_refused_body_of_unknown_length() -> None:
    """The connection is kept unless more data arrives than is worth reading."""
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
    connection.receive(b"0\r\n\r\n" + LIVE + b"\r\n")
    assert connection.transport.sent.endswith(b"ok") and not connection.transport.closed
    connection.receive(REFUSED + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(31):
        connection.receive(b"100000\r\n" + bytes(2**20) + b"\r\n")
    assert not connection.transport.closed
    connection.receive(b"100000\r\n" + bytes(2**20) + b"\r\n")
    assert connection.transport.closed


def test_the_headers_after_a_refusal_have_a_limit() -> None:
    connection = Connection(overload=Busy())
    connection.receive(REFUSED + b"Content-Length: 0\r\n\r\n" + LIVE)
    connection.loop.turn(10)
    assert lingers(connection) and b"HTTP/1.1 408 " in connection.transport.sent


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
    """By the protocol or by the middleware: a full service admits no request that would cost model time."""
    with served(tmp_path, SMALL) as world, full(world), connected(world.url) as sock:
        sock.sendall(f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        status = sock.recv(4096).split()[1]
    assert status == {"/answer/": b"404", "/v1/models": b"405", "//answer": b"404"}.get(target, b"429")


@pytest.mark.parametrize("line", [b"answer me", b"POST http://a HTTP/1.1\r\nHost: a"])
def test_what_is_not_http_gets_an_error_in_the_shape_of_all(line: bytes) -> None:
    connection = Connection()
    connection.receive(line + b"\r\n\r\n")
    head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n") and lingers(connection)
    assert json.loads(text)["error"]["code"] == "malformed_http"


@pytest.mark.parametrize("headers", [b"", b"Host: a\r\nHost: a\r\n", UPGRADE, b"Content-Length: 4\r\n"])
def test_a_request_names_one_host(headers: bytes) -> None:
    for overload in (None, Busy()):
        connection = Connection(overload=overload)
        connection.receive(b"POST /answer HTTP/1.1\r\n" + headers + b"\r\nbody")
        head, _, text = connection.transport.sent.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n") and lingers(connection)
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
    assert connection.transport.sent.endswith(b"ok") and lingers(connection)


@pytest.mark.slow
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


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_the_application_learns_both_addresses(
    run: Callable[[Coroutine[Any, Any, None]], None], family: socket.AddressFamily, tmp_path: Path
) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await Response()(scope, receive, send)

    async def asked() -> None:
        server = uvicorn.Server(uvicorn.Config(app, http=protocol_of(SMALL), lifespan="off", log_level="warning"))
        with socket.socket(family) as listener:
            host = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}.get(family)
            listener.bind((host, 0) if host else str(tmp_path / "socket"))
            serving = asyncio.create_task(server.serve([listener]))
            with socket.socket(family) as client:
                client.setblocking(False)
                while not server.started:
                    await asyncio.sleep(0.01)
                await asyncio.get_running_loop().sock_connect(client, listener.getsockname())
                client.send(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                await asyncio.get_running_loop().sock_recv(client, 1000)
                names = listener.getsockname(), client.getsockname()
            server.should_exit = True
            await serving
        expected = [name[:2] for name in names] if host else [(names[0], None), None]
        assert [seen[0]["server"], seen[0]["client"]] == expected

    run(asked())
