"""Requests to upgrade to another protocol: answered without upgrading, or refused."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.fakes.connection import LIVE, REFUSED, UPGRADE, Busy, Connection, begin, connected
from tests.fakes.service import body, served

FRAMINGS = {
    b"Content-Length": lambda text: b"Content-Length: %d\r\n\r\n%s" % (len(text), text),
    b"Transfer-Encoding": lambda text: (
        b"Transfer-Encoding: chunked\r\n\r\n9\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (text[:9], len(text) - 9, text[9:])
    ),
}


@pytest.mark.parametrize("framed", FRAMINGS.values(), ids=("length", "chunked"))
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_refused_request_may_ask_for_an_upgrade(framed: Callable[[bytes], bytes], size: int) -> None:
    """Its body is discarded like any other and not read as a request, wherever packets are split."""
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
        sock.sendall(upgraded)  # the connection still works
        assert reply(replies)["answer"] == "1848"


def reply(replies: BinaryIO) -> Any:
    """Returns the JSON of a connection's next response, which must be successful."""
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
    assert head.startswith(b"HTTP/1.1 400 ") and connection.transport.ended
    assert json.loads(text)["error"]["code"] == "malformed_http"


def test_an_upgrade_without_a_body_is_ignored() -> None:
    connection = Connection()
    for _ in range(2):
        connection.receive(LIVE + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert connection.transport.sent.count(b"HTTP/1.1 200 OK") == 2 and not connection.transport.closed
