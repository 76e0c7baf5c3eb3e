"""A light HTTP client: requests are sent at predetermined times, whether or not the service keeps up.

Latency counts from the time that a request was due, so that a client that falls behind cannot hide it. Requests go over
new connections, which one thread watches without asyncio: a client must cost far less than what it measures.
"""

from __future__ import annotations

import errno
import random
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from evaluation.metrics import percentile

TIMEOUT_S = 60.0
CUT_OFF = "cut off"
RETRY_S = 0.05  # after which a caller of `closed_loop` sends again


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a request.

    Attributes:
        outcome: The HTTP status, or what happened instead.
        ended: When the response ended, in seconds from the start of the load.
        seconds: Seconds from the time that it was due until then.
        lag: Seconds between the time that it was due and that of sending.
    """

    outcome: int | str
    ended: float
    seconds: float
    lag: float


@dataclass(slots=True)
class _Exchange:
    """A request on its way.

    Attributes:
        unsent: What is left to send.
        done: Called with the outcome.
        began: When it was sent, by `time.perf_counter`.
        head: The first bytes of the response.
        failure: What happened if there is no response.
    """

    unsent: memoryview
    done: Callable[[int | str], None]
    began: float = field(default_factory=time.perf_counter)
    head: bytes = b""
    failure: str = CUT_OFF


class Client:
    """Sends requests, each over a new connection, and tells when and how they end."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address, self._ready = address, selectors.DefaultSelector()
        self._open: dict[socket.socket, _Exchange] = {}  # the oldest first

    def __len__(self) -> int:
        """Number of requests on their way."""
        return len(self._open)

    def send(self, request: bytes, done: Callable[[int | str], None]) -> None:
        """Sends a request; once it has ended, `wait` calls `done` with the status, or with what happened instead."""
        connection = socket.socket()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(request))  # a photograph in one piece
        exchange = self._open[connection] = _Exchange(memoryview(request), done)
        self._ready.register(connection, selectors.EVENT_WRITE)
        if (error := connection.connect_ex(self._address)) in (0, errno.EINPROGRESS):
            self._write(connection, exchange)
        else:
            self._end(connection, type(OSError(error, "")).__name__)

    def wait(self, seconds: float) -> None:
        """Handles what arrives until something has, or for this time."""
        for key, events in self._ready.select(max(seconds, 0.0)):
            connection: Any = key.fileobj
            handle = self._write if events & selectors.EVENT_WRITE else self._read
            handle(connection, self._open[connection])
        oldest = next(iter(self._open.items()), None)
        if oldest and time.perf_counter() > oldest[1].began + TIMEOUT_S:
            self._end(oldest[0], "timed out")

    def close(self) -> None:
        """Drops what is on its way."""
        for connection in self._open:
            connection.close()
        self._ready.close()

    def _write(self, connection: socket.socket, exchange: _Exchange) -> None:
        try:
            exchange.unsent = exchange.unsent[connection.send(exchange.unsent) :]
        except BlockingIOError:
            return
        except OSError as error:  # closed by the service, perhaps after a response
            exchange.unsent, exchange.failure = exchange.unsent[:0], type(error).__name__
        if not exchange.unsent:
            self._ready.modify(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket, exchange: _Exchange) -> None:
        try:
            while data := connection.recv(1 << 18):
                exchange.head += data[: 12 - len(exchange.head)]
        except BlockingIOError:
            return
        except OSError as error:
            exchange.failure = type(error).__name__
        status = int(exchange.head[9:12]) if exchange.head.startswith(b"HTTP/") else None
        # Who refuses without reading the body resets the connection, but the status has arrived before.
        whole = exchange.failure == CUT_OFF or status != 200
        self._end(connection, status if status and whole else exchange.failure)

    def _end(self, connection: socket.socket, outcome: int | str) -> None:
        self._ready.unregister(connection)
        connection.close()
        self._open.pop(connection).done(outcome)


def request_bytes(image: bytes, question: str, path: str = "/answer") -> bytes:
    """Returns a multipart request with all its headers."""
    boundary = "load-benchmark"
    parts = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="question"\r\n\r\n{question}\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="image.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    ).encode()
    body = parts + image + f"\r\n--{boundary}--\r\n".encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
    )
    return head.encode() + body


def arrival_times(rate: float, seconds: float, seed: int) -> list[float]:
    """Returns times in [0, seconds): a Poisson process with `rate` arrivals per second."""
    draw, times, now = random.Random(seed), [], 0.0
    while (now := now + draw.expovariate(rate)) < seconds:
        times.append(now)
    return times


def open_loop(address: tuple[str, int], requests: Iterator[bytes], times: Sequence[float]) -> list[Reply]:
    """Sends a request at each of `times`, in seconds from now; returns the outcomes in the order of their ends."""
    replies, start = list[Reply](), time.perf_counter()

    def done(due: float, lag: float, outcome: int | str) -> None:
        ended = time.perf_counter() - start
        replies.append(Reply(outcome, ended, ended - due, lag))

    with closing(Client(address)) as client:
        for due in times:
            request = next(requests)
            while (left := start + due - time.perf_counter()) > 0:
                client.wait(left)
            client.send(request, partial(done, due, -left))
        while client:
            client.wait(1.0)
    return replies


def closed_loop(
    address: tuple[str, int], requests: Iterator[bytes], seconds: float, callers: int
) -> tuple[float, list[float]]:
    """Runs `callers` that each send one request after another; returns answers per second and each answer's seconds.

    Raises:
        OSError: A request was not answered.
    """
    took, start = list[float](), time.perf_counter()
    free = [start] * callers  # when each idle caller sends again

    def done(began: float, outcome: int | str) -> None:
        now = time.perf_counter()
        if outcome not in (200, 429):
            raise OSError(f"a request ended with {outcome}")
        if outcome == 200:
            took.append(now - began)
        free.append(now if outcome == 200 else now + RETRY_S)

    with closing(Client(address)) as client:
        while (now := time.perf_counter()) < start + seconds or client:
            if now < start + seconds and free and min(free) <= now:
                free.remove(min(free))
                client.send(next(requests), partial(done, now))
            else:
                client.wait(max(min(free, default=now + 1.0) - now, 0.001))
    return len(took) / (time.perf_counter() - start), took


def figures_of(replies: Sequence[Reply], seconds: float) -> dict[str, Any]:
    """Returns the figures of one load: rates per second, and latencies of answered and refused requests in ms."""
    answered = [reply.seconds * 1000 for reply in replies if reply.outcome == 200]
    refused = [reply.seconds * 1000 for reply in replies if reply.outcome == 429]
    rate = len(answered) / max([seconds, *(reply.ended for reply in replies if reply.outcome == 200)])
    return {
        "requests": len(replies),
        "answered": len(answered),
        "answered_per_s": round(rate, 2),
        "refused": len(refused),
        "errors": dict(Counter(str(reply.outcome) for reply in replies if reply.outcome not in (200, 429))),
        "latency_ms": _percentiles(answered),
        "refusal_ms": _percentiles(refused),
        "client_lag_ms": _percentiles([reply.lag * 1000 for reply in replies]),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float | None]:
    return {f"p{q}": percentile(values, q) for q in (50, 95, 99)}
