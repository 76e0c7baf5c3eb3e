"""A server on loopback that answers every request with scripted bytes, for chat servers and proxies that misbehave."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

Answer = Sequence[bytes | float]
"""Bytes to send and seconds to wait, in turn; then the connection is closed."""


class RawServer:
    """Answers each request with what `answer` returns for its path and JSON body; records both.

    Args:
        answer: The script.
    """

    def __init__(self, answer: Callable[[str, Any], Answer]) -> None:
        self.requests: list[tuple[str, Any]] = []
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file, suppress(OSError):
            line = file.readline().decode()
            if not line:
                return
            length = 0
            while (header := file.readline().strip()) != b"":
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = file.read(length)
            path = line.split()[1]
            sent = json.loads(body) if body[:1] == b"{" else body
            self.requests.append((path, sent))
            for part in self._answer(path, sent):
                if isinstance(part, bytes):
                    connection.sendall(part)
                else:
                    time.sleep(part)


def response(body: bytes | object, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    """Returns a whole response; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def events(*values: object) -> bytes:
    """Returns a stream of events that ends with the connection; a text is sent as it is."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return head + "".join(f"data: {line}\n\n" for line in lines).encode()


def piece(content: object = "", finish: str | None = None) -> dict[str, Any]:
    """Returns a piece of a chat completion."""
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]}
