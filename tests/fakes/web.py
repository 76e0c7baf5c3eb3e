"""A web server on real sockets that fails in every way servers do: each path starts with the name of its fault."""

from __future__ import annotations

import functools
import gzip
import socket
import socketserver
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate

CRLF = b"\r\n"


@dataclass
class FakeWeb:
    """A fake web: the files of its server and the requests it received.

    Attributes:
        files: Content by path without leading slash and fault: `good/a.jpg` and `slow/a.jpg` are both `a.jpg`.
        robots: The content of `/robots.txt`.
        log: Path and headers of every request, in order.
        starts: When each request arrived, in seconds.
        busiest: Maximum number of concurrent requests.
    """

    files: dict[str, bytes]
    robots: bytes = b""
    log: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    busiest: int = 0
    pause: float = 0.0
    port: int = 0
    _asked: Counter[str] = field(default_factory=Counter)
    _active: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.place}/{path}"

    def paths(self) -> list[str]:
        return [path for path, _ in self.log if path not in ("/robots.txt", "/favicon.ico")]

    def forget(self) -> None:
        """Makes the server answer as if it had received no requests yet."""
        self._asked.clear()
        self.log.clear()
        self.starts.clear()
        self.busiest = 0

    def begin(self, path: str, headers: dict[str, str]) -> int:
        with self._lock:
            self.log.append((path, headers))
            self.starts.append(time.monotonic())
            self._asked[path] += 1
            self._active += 1
            self.busiest = max(self.busiest, self._active)
            return self._asked[path]

    def end(self) -> None:
        with self._lock:
            self._active -= 1


def head(status: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers, "Connection: close"]
    return CRLF.join(line.encode() for line in lines) + CRLF + CRLF


def whole(content: bytes, *headers: str, status: int = 200) -> bytes:
    return head(status, f"Content-Length: {len(content)}", "Content-Type: image/jpeg", *headers) + content


def _answer(web: FakeWeb, connection: socket.socket, path: str, asked: int) -> None:
    """Sends the file with the fault named in `path`."""
    fault, _, name = path.lstrip("/").partition("?")[0].partition("/")
    content = web.files.get(name, b"")
    if path == "/robots.txt":
        connection.sendall(whole(web.robots) if web.robots else whole(b"", status=404))
        return
    if path == "/favicon.ico":
        connection.sendall(whole(b"", status=404))
        return
    time.sleep(web.pause)

    def reset_midway() -> None:
        connection.sendall(whole(content)[: len(content) // 2])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def drip() -> None:
        connection.sendall(head(200, f"Content-Length: {len(content)}"))
        for byte in content:
            if web.closing.wait(0.05):
                return
            connection.sendall(bytes([byte]))

    def hang() -> None:
        web.closing.wait(30)

    def send(data: bytes) -> Callable[[], None]:
        return lambda: connection.sendall(data)

    def first(data: bytes, then: bytes) -> Callable[[], None]:
        return send(data if asked == 1 else then)

    here = f"http://{web.place}"
    answers: dict[str, Callable[[], None]] = {
        "good": send(whole(content)),
        "page": send(head(200, f"Content-Length: {len(content)}", "Content-Type: text/html; charset=utf-8") + content),
        "missing": send(whole(b"no", status=404)),
        "forbidden": send(whole(b"no", status=403)),
        "teapot": send(whole(b"no", status=418)),
        "busy": first(whole(b"", "Retry-After: 1", status=429), whole(content)),
        "busydate": first(
            whole(b"", f"Retry-After: {formatdate(time.time() + 2, usegmt=True)}", status=503), whole(content)
        ),
        "tomorrow": send(whole(b"", "Retry-After: 86400", status=429)),
        "error": send(whole(b"", status=500)),
        "once500": first(whole(b"", status=500), whole(content)),
        "oncereset": reset_midway if asked == 1 else send(whole(content)),
        "reset": reset_midway,
        "garbage": send(b"\x16\x03\x01 not HTTP\r\n\r\n"),
        "truncated": send(whole(content)[: -len(content) // 2]),
        "longer": send(head(200, f"Content-Length: {len(content) + 100}") + content),
        "shorter": send(head(200, f"Content-Length: {len(content) // 2}") + content),
        "nolength": send(head(200) + content),
        "endless": lambda: _endless(web, connection),
        "liar": send(head(200, "Content-Length: 99999999999") + content),
        "drip": drip,
        "hang": hang,
        "gzip": send(whole(gzip.compress(content), "Content-Encoding: gzip")),
        "deflate": send(whole(zlib.compress(content), "Content-Encoding: deflate")),
        "rawdeflate": send(whole(zlib.compress(content, wbits=-15), "Content-Encoding: deflate")),
        "gzipbomb": lambda: connection.sendall(whole(_gzip_bomb(), "Content-Encoding: gzip")),
        "twicegzip": lambda: connection.sendall(whole(gzip.compress(_gzip_bomb()), "Content-Encoding: gzip, gzip")),
        "cutgzip": send(whole(gzip.compress(content)[:-40], "Content-Encoding: gzip")),
        "badgzip": send(whole(content, "Content-Encoding: gzip")),
        "html": send(whole(b"<html><body>Not found</body></html>")),
        "empty": send(whole(b"")),
        "loop": send(head(302, f"Location: {here}{path}", "Content-Length: 0")),
        "moved": send(head(301, f"Location: /good/{name}", "Content-Length: 0")),
        "private": send(head(302, f"Location: http://localhost:{web.port}/good/{name}", "Content-Length: 0")),
        "file": send(head(302, "Location: file:///etc/passwd", "Content-Length: 0")),
        "nowhere": send(head(302, "Content-Length: 0")),
    }
    answers[fault]()


@functools.cache
def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(30_000_000))


def _endless(web: FakeWeb, connection: socket.socket) -> None:
    connection.sendall(head(200))
    while not web.closing.is_set():
        connection.sendall(bytes(1 << 16))


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        web: FakeWeb = self.server.web  # type: ignore[attr-defined]
        try:
            line = self.rfile.readline().split()
            if len(line) != 3:
                return
            headers = {}
            while (header := self.rfile.readline().decode("latin-1").strip()) != "":
                key, _, value = header.partition(":")
                headers[key.lower()] = value.strip()
            path = line[1].decode("latin-1")
            asked = web.begin(path, headers)
            try:
                _answer(web, self.connection, path, asked)
            finally:
                web.end()
        except OSError:  # the client hung up
            return


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


@contextmanager
def serve_web(files: dict[str, bytes]) -> Iterator[FakeWeb]:
    """Yields a running server."""
    web = FakeWeb(files)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.web = web  # type: ignore[attr-defined]
        web.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield web
        finally:
            web.closing.set()
            server.shutdown()
            thread.join()
