"""Overload: more requests than a real server has time for."""

from __future__ import annotations

import json
import re
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import httpx
import pytest
import uvicorn

from serving import admission, protocol
from serving.discard import Discard
from serving.overload import Overload
from serving.protocol import FIRST_BYTES, protocol_of
from serving.settings import ServingSettings
from tests.fakes.asking import WHEN
from tests.fakes.connection import LIVE, REFUSED, Busy, answer, connected
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.listening import listening_as
from tests.fakes.service import SMALL, World, body, full, post, served, wait_until


@contextmanager
def connection(url: str, length: int, path: str = "/answer", close: bool = False) -> Iterator[socket.socket]:
    """A connection that has sent a request's headers but nothing of its body."""
    with connected(url) as sock:
        headers = f"Host: test\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        headers += "Connection: close\r\n" if close else ""
        head = f"POST {path} HTTP/1.1\r\n{headers}\r\n"
        sock.sendall(head.encode())
        yield sock


def response_of(sock: socket.socket) -> tuple[str, bytes]:
    """Returns the lowercased head of a response, and its body."""
    with sock.makefile("rb") as file:
        return next_response(file)


def next_response(file: IO[bytes]) -> tuple[str, bytes]:
    head = "".join(iter(lambda: file.readline().decode().lower().replace("\r\n", "\n"), "\n"))
    length = re.search("^content-length: ([0-9]+)$", head, re.MULTILINE)
    return head, file.read(int(length[1])) if length else b""


def status_of(sock: socket.socket) -> int:
    return int(response_of(sock)[0].split()[1])


@pytest.mark.parametrize("path", ["/answer", "/retrieve", "/v1/chat/completions", "/v1/responses"])
def test_a_full_service_refuses_before_the_body(tmp_path: Path, path: str) -> None:
    with served(tmp_path, SMALL) as world, full(world) as held:
        with connection(world.url, 5_000_000, path) as sock:
            head, text = response_of(sock)
            assert head.startswith("http/1.1 429 ")
            assert re.search("retry-after: [1-9]", head) and "x-request-id: " in head
            assert json.loads(text)["error"]["code"] == "queue_full"
            assert json.loads(text)["error"]["type"] == "rate_limit_error"
        world.retriever.gate.set()
        assert [future.result().status_code for future in held] == [200, 200]
        assert world.retriever.batches == [["running"], ["waiting"]]


def test_a_refusal_passes_no_other_middleware_but_has_what_they_add(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has a request id, a log line, and CORS headers that let an allowed site's page read it."""
    settings = SMALL.model_copy(update={"cors_origins": ("https://shop.example",)})
    with served(tmp_path, settings) as world, full(world):
        headers = {"x-request-id": "run-7", "origin": "https://shop.example", "content-type": "application/json"}
        with caplog.at_level("INFO", logger="serving.access"):
            response = httpx.post(f"{world.url}/retrieve", content=body(), headers=headers, verify=False)
            wait_until(lambda: any(vars(record).get("status") == 429 for record in caplog.records))  # logged late
    assert response.status_code == 429 and response.headers["x-request-id"] == "run-7"
    assert response.headers["access-control-allow-origin"] == "https://shop.example"
    [line] = [fields for fields in map(vars, caplog.records) if fields.get("status") == 429]  # others may end only now
    assert (line["route"], line["code"]) == ("/retrieve", "queue_full")


def test_a_refused_connection_can_be_used_again(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, httpx.Client(base_url=world.url, trust_env=False, timeout=20) as client:
        headers = {"Content-Type": "application/json"}
        with full(world) as held:
            large = body() + b" " * 3_000_000
            assert client.post("/answer", content=large, headers=headers).status_code == 429
            world.retriever.gate.set()
            assert [future.result().status_code for future in held] == [200, 200]
            assert client.post("/answer", content=body(), headers=headers).status_code == 200


def test_a_refusal_is_not_lost_when_the_connection_closes(tmp_path: Path) -> None:
    """The client sends its body only after the response has been written and the connection would be closed."""
    with served(tmp_path, SMALL) as world, full(world), connection(world.url, 3_000_000, close=True) as sock:
        assert status_of(sock) == 429
        sock.sendall(b" " * 3_000_000)
        assert sock.recv(65536) == b""  # closed, not reset


@contextmanager
def discarding(
    loop: Literal["asyncio", "uvloop"], overload: Busy | None, monkeypatch: pytest.MonkeyPatch, upload_s: float = 60
) -> Iterator[tuple[socket.socket, list[Discard]]]:
    """Yields a connection to a server that reads no body, and what has discarded bytes of it."""
    made: list[Discard] = []

    def make(*args: Any) -> Discard:
        made.append(Discard(*args))
        return made[-1]

    monkeypatch.setattr(protocol, "Discard", make)
    http = protocol_of(ServingSettings(upload_timeout_s=upload_s), cast(Overload, overload))
    config = uvicorn.Config(answer, port=0, http=http, loop=loop, lifespan="off", ws="none", log_level="error")
    with listening_as(config) as url, connected(url) as sock:
        yield sock, made


LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
PHOTOGRAPH = REFUSED + b"Content-Length: 3000000\r\n"


@LOOPS
@pytest.mark.parametrize(("overload", "status"), [(Busy(), 429), (None, 200)])
def test_a_body_that_nobody_reads_is_discarded_up_to_its_last_byte(
    loop: Literal["asyncio", "uvloop"], overload: Busy | None, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because the protocol refuses it, or the application answers before; the next request is answered."""
    with discarding(loop, overload, monkeypatch) as (sock, made), sock.makefile("rb") as file:
        for times in (1, 2):
            sock.sendall(PHOTOGRAPH + b"\r\n" + bytes(3_000_000) + LIVE + b"\r\n")
            assert [int(next_response(file)[0].split()[1]) for _ in range(2)] == [status, 200]
            assert len(made) == times


@LOOPS
def test_a_discarded_body_ends_with_its_connection(
    loop: Literal["asyncio", "uvloop"], monkeypatch: pytest.MonkeyPatch
) -> None:
    with discarding(loop, Busy(), monkeypatch) as (sock, made):
        sock.sendall(PHOTOGRAPH + b"Connection: close\r\n\r\n")
        assert status_of(sock) == 429
        sock.sendall(bytes(3_000_000))
        assert sock.recv(1) == b""  # closed, not reset
    with discarding(loop, Busy(), monkeypatch) as (sock, made):
        sock.sendall(PHOTOGRAPH + b"\r\n" + bytes(1_000_000))
        assert status_of(sock) == 429
        wait_until(lambda: [item.closed for item in made] == [False])
        sock.close()
        wait_until(lambda: made[0].closed)
    with discarding(loop, Busy(), monkeypatch, upload_s=0.2) as (sock, made):
        sock.sendall(PHOTOGRAPH + b"\r\n")
        assert status_of(sock) == 429
        sock.sendall(bytes(1_000_000))
        assert sock.recv(1) == b"" and made[0].closed


def test_an_enormous_upload_is_cut_off(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, full(world), connection(world.url, 10**10) as sock:
        head, _ = response_of(sock)
        assert head.startswith("http/1.1 429 ") and "connection: close\n" in head


def padded(question: str = WHEN) -> bytes:
    """A request's body that the application begins to read before its end."""
    return b" " * FIRST_BYTES + body(question)


def inside(world: World) -> int:
    """Returns how many requests hold a place."""
    text = httpx.get(f"{world.url}/metrics", trust_env=False, verify=False).text
    return int(text.partition("\nomgm_requests_inside ")[2].partition(".")[0])


def test_an_upload_that_has_hardly_begun_holds_no_place(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, connection(world.url, len(padded())) as slow:
        slow.sendall(padded()[: FIRST_BYTES - 1])
        assert post(world.url).status_code == 200 and inside(world) == 0
        slow.sendall(padded()[FIRST_BYTES - 1 : FIRST_BYTES])
        wait_until(lambda: inside(world) == 1)
        slow.sendall(padded()[FIRST_BYTES:])
        assert status_of(slow) == 200


def test_a_slow_upload_holds_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UPLOAD_GRACE_S", 0.1)
    settings = ServingSettings(max_batch=1, max_queue=2)  # so two slow uploads are not too many
    with served(tmp_path, settings) as world, connection(world.url, len(padded())) as slow:
        slow.sendall(padded()[:FIRST_BYTES])
        time.sleep(0.2)
        with connection(world.url, len(padded())) as other:
            other.sendall(padded()[:FIRST_BYTES])
            time.sleep(0.2)
            assert post(world.url).status_code == 200
            for sock in (slow, other):
                sock.sendall(padded()[FIRST_BYTES:])
                assert status_of(sock) == 200


def test_a_slow_upload_must_be_let_in_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "UPLOAD_GRACE_S", 0.1)
    with served(tmp_path, SMALL) as world, connection(world.url, len(padded("slow"))) as slow:
        slow.sendall(padded("slow")[:FIRST_BYTES])
        time.sleep(0.2)
        with full(world) as held:
            slow.sendall(padded("slow")[FIRST_BYTES:])
            assert status_of(slow) == 429
            world.retriever.gate.set()
            assert [future.result().status_code for future in held] == [200, 200]
        assert ["slow"] not in world.retriever.batches


@pytest.mark.parametrize("length", [1, FIRST_BYTES])
def test_an_upload_that_takes_too_long(tmp_path: Path, length: int) -> None:
    settings = ServingSettings(upload_timeout_s=0.2)
    with served(tmp_path, settings) as world, connection(world.url, 20_000) as slow:
        slow.sendall(bytes(length))
        head, text = response_of(slow)
        assert head.startswith("http/1.1 408 ") and json.loads(text)["error"]["code"] == "upload_timeout"


@pytest.mark.slow
def test_slow_clients_cost_nothing(tmp_path: Path) -> None:
    """Three hundred that send a byte at a time, and as many that read no answer and no stream, beside normal ones."""
    streaming = json.dumps({"image": data_uri(image_bytes("red")), "question": WHEN, "stream": True}).encode()
    with served(tmp_path, ServingSettings()) as world, ExitStack() as stack:
        alone = [seconds_of(world.url) for _ in range(50)]
        for number in range(300):
            length = len(body())
            sender = stack.enter_context(connection(world.url, length))
            sender.sendall(b"{")
            content = streaming if number % 2 else body()
            reader = stack.enter_context(connection(world.url, len(content)))
            reader.sendall(content)
            sender.sendall(b" ")
        wait_until(lambda: inside(world) == 0)
        beside = [seconds_of(world.url) for _ in range(50)]
    assert statistics.median(beside) < 2 * statistics.median(alone)


def seconds_of(url: str) -> float:
    """Returns how long a normal request takes."""
    began = time.perf_counter()
    assert post(url).status_code == 200
    return time.perf_counter() - began


def test_many_callers_are_either_answered_or_refused(tmp_path: Path) -> None:
    """Two full batches are admitted even before any has been measured; no request waits in vain."""
    settings = ServingSettings(max_batch=4, max_wait_s=0)
    with served(tmp_path, settings) as world, ThreadPoolExecutor(40) as pool:
        world.retriever.gate.clear()
        calls = [pool.submit(post, world.url, f"question {number}") for number in range(40)]
        wait_until(lambda: sum(call.done() for call in calls) >= 40 - 8)
        world.retriever.gate.set()
        statuses = [call.result().status_code for call in calls]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 8
    assert sum(map(len, world.retriever.batches)) == statuses.count(200)
