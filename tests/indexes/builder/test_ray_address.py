from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexes.builder import ray_address
from indexes.builder.ray_address import check_address
from tests.fakes.processes import run_python


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_USE_TLS"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Yields the address of a server that accepts one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def speak_http2(connection: socket.socket) -> None:
    assert connection.makefile("rb").read(24 + 9).startswith(b"PRI * HTTP/2.0")
    connection.sendall(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6))
    connection.recv(1)  # until the client hangs up


def test_a_head_that_answers_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(speak_http2) as address:
        check_address(address)
    check_address("auto")  # found by Ray itself
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    check_address("auto")
    with listening(speak_http2) as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        check_address("auto")


def test_who_lacks_the_token_is_told_so(tmp_path: Path) -> None:
    """In a separate process, because Ray keeps the environment variables it has read."""
    pytest.importorskip("ray", reason="needs the extra ray")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
    with listening(speak_http2) as address:
        call = f"from indexes.builder.ray_address import connect; connect({address!r}, 'RAY_ADDRESS')"
        done = run_python("-c", call, environment=environment)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ValueError: RAY_ADDRESS {address}: not connected (") and "no authentication token" in last
    assert last.endswith("if it asks for a token, set RAY_AUTH_MODE=token and copy ~/.ray/auth_token from its head")


def test_nothing_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ValueError, match=rf"--cluster {address}: no Ray cluster at {address} .*`ray start --head`"):
        check_address(address)


@pytest.mark.parametrize(
    "answer",
    [lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), lambda connection: connection.recv(1)],
)
def test_something_else_there(answer: Callable[[socket.socket], object]) -> None:
    with listening(answer) as address, pytest.raises(ValueError, match=rf"no Ray cluster at {address}"):
        check_address(address)


def test_nobody_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_address, "_PATIENCE", 0.1)
    done = threading.Event()
    with listening(lambda connection: done.wait(10)) as address:
        with pytest.raises(ValueError, match="timed out"):
            check_address(address)
        done.set()


@pytest.mark.parametrize("address", [":6379", "head", "head:", "head:port", "head:99999"])
def test_a_malformed_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match=f"--cluster {address}: "):
        check_address(address)
