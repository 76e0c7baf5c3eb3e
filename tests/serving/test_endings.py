"""Responses to clients that break HTTP, send too much or close early: raw bytes to a real server."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serving.keys import digest_of
from serving.protocol import LONGEST_HEADERS
from serving.settings import ServingSettings
from tests.fakes.connection import connected
from tests.fakes.service import World, body, served, wait_until

HEAD = b"POST /retrieve HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with served(tmp_path) as world:
        yield world


def whole(sock: socket.socket) -> bytes:
    """Returns everything received until the service closes the connection."""
    received = b""
    while data := sock.recv(65536):
        received += data
    return received


def told(url: str, request: bytes) -> tuple[int, str]:
    """Returns status and error code of the response to `data`, after which the connection must close."""
    with connected(url) as sock:
        sock.sendall(request)
        head, _, text = whole(sock).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(text)["error"]["code"]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_a_trailer_is_no_header(tmp_path: Path) -> None:
    with served(tmp_path, ServingSettings(read_keys=(digest_of("key"),))) as world, connected(world.url) as sock:
        sock.sendall(CHUNKED + chunk(body()) + b"0\r\nAuthorization: Bearer key\r\nX-Request-Id: mine\r\n\r\n")
        received = sock.recv(65536)
    assert received.startswith(b"HTTP/1.1 401 ") and b"x-request-id: mine" not in received


@pytest.mark.parametrize(
    ("begin", "piece"),
    [(b"0\r\n", b"X-More: %b\r\n" % bytes(b"y" * 1000)), (b"0\r\nX-Long: ", b"y" * 1000), (b"1;", b"y" * 1000)],
    ids=["trailers", "one trailer", "extension of a chunk"],
)
def test_what_comes_beside_a_body_has_a_limit(world: World, begin: bytes, piece: bytes) -> None:
    with connected(world.url) as sock:
        sock.sendall(CHUNKED + begin)
        with pytest.raises(OSError):  # closed
            for _ in range(100_000):
                sock.sendall(piece)


@pytest.mark.parametrize(("more", "status"), [(0, b"200"), (1, b"431")])
def test_headers_that_arrive_at_once_have_the_same_limit(world: World, more: int, status: bytes) -> None:
    head = b"GET /health/live HTTP/1.1\r\nHost: a\r\nX-Long: "
    rest = LONGEST_HEADERS - len("/health/live") - len("Host: a\r\nX-Long: \r\n")
    with connected(world.url) as sock:
        sock.sendall(head + b"y" * (rest + more) + b"\r\n\r\n")
        assert sock.recv(1024).split()[1] == status


@pytest.mark.parametrize(
    "request_",
    [
        CHUNKED + b"no size\r\n",
        CHUNKED + chunk(b"{") + b"no size\r\n",
        CHUNKED + chunk(b"{}") + b"0\r\nno trailer\r\n\r\n",
        HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    ],
)
def test_a_body_that_is_not_http_gets_an_answer(world: World, request_: bytes) -> None:
    assert told(world.url, request_) == (400, "malformed_http")


def test_a_whole_request_before_nonsense_is_answered(world: World) -> None:
    """For example, because the client counted characters instead of bytes."""
    text = body("Wer schloss den Frieden von Münster?").decode().replace("\\u00fc", "ü")
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(text)
    assert told(world.url, head + text.encode()) == (400, "malformed_json")
    with connected(world.url) as sock:
        sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body()) + body() + b"nonsense\r\n\r\n")
        received = whole(sock)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n") and received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [("/nothing", "application/json", 404), ("/answer", "text/plain", 415), ("/health/live", "text/plain", 405)],
)
def test_an_error_reaches_a_client_that_still_sends(
    world: World, version: int, path: str, kind: str, status: int
) -> None:
    """Even with `Connection: close`, which nginx sends to every upstream by default."""
    client = http.client.HTTPConnection(httpx.URL(world.url).netloc.decode(), timeout=20)
    client._http_vsn, client._http_vsn_str = version, f"HTTP/1.{version - 10}"  # type: ignore[attr-defined]
    client.request("POST", path, b"x" * 9_000_000, {"Content-Type": kind, "Connection": "close"})
    answer = client.getresponse()
    assert answer.status == status and json.loads(answer.read())["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (b"GET / HTTP/1.1\r\nX-Long: ", (431, "headers_too_long")),
        (b"GET / HTTP/1.1\r\n\r\n", (400, "malformed_http")),  # without a Host
        (b"nonsense\r\n", (400, "malformed_http")),
        (CHUNKED + b"no size\r\n", (400, "malformed_http")),
        (CHUNKED + b"0\r\nX-Long: ", (431, "headers_too_long")),
    ],
)
def test_an_error_of_the_protocol_reaches_a_client_that_still_sends(
    world: World, begin: bytes, expected: tuple[int, str]
) -> None:
    assert told(world.url, begin + b"y" * 9_000_000) == expected


def test_slow_headers_do_not_cut_off_the_answer_before_them(tmp_path: Path) -> None:
    with served(tmp_path, ServingSettings(header_timeout_s=0.1)) as world, connected(world.url) as sock:
        world.retriever.gate.clear()
        sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body()) + body() + HEAD)
        wait_until(lambda: len(world.retriever.batches) == 1)
        time.sleep(0.3)
        world.retriever.gate.set()
        received = whole(sock)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n") and received.count(b"HTTP/1.1") == 1


def test_a_client_that_never_sends_the_rest_is_not_waited_for_long(world: World) -> None:
    head = b"POST /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n\r\n"
    assert told(world.url, head) == (404, "not_found")


def test_a_client_that_leaves_several_requests_behind(world: World) -> None:
    """The running request ends as the client's fault; the others never start."""
    world.retriever.gate.clear()
    with connected(world.url) as sock:
        sock.sendall((HEAD + b"Content-Length: %d\r\n\r\n" % len(body()) + body()) * 3)
        wait_until(lambda: len(world.retriever.batches) == 1)
    wait_until(lambda: 'omgm_requests_total{route="/retrieve",status="499"} 1.0' in metrics(world))
    world.retriever.gate.set()
    assert 'status="500"' not in metrics(world) and len(world.retriever.batches) == 1


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    settings = ServingSettings(upload_timeout_s=0.3)
    with served(tmp_path, settings) as world, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect((httpx.URL(world.url).host, httpx.URL(world.url).port or 80))
        with pytest.raises(ConnectionError):
            sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)  # more than all buffers hold
            for _ in range(2000):
                time.sleep(0.01)
                sock.sendall(b"\r\n")


def test_a_stream_to_a_client_of_http_1_0_has_no_chunks(world: World) -> None:
    text = json.dumps({**json.loads(body()), "stream": True}).encode()
    with connected(world.url) as sock:
        head = b"POST /answer HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text)
        sock.sendall(head + text)
        head, _, events = whole(sock).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head and b"connection: close" in head
    assert events.startswith(b"event: retrieval\ndata: {") and events.endswith(b"}\n\n")


def metrics(world: World) -> str:
    return httpx.get(f"{world.url}/metrics", trust_env=False, verify=False).text
