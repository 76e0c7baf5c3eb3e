"""An open-loop HTTP client: requests are sent at predetermined times, whether or not the service keeps up.

Latency counts from a request's scheduled time, so that a client that falls behind cannot hide it. It uses plain asyncio
streams and a new connection per request, because a client must cost less than what it measures.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics import percentile

TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a request.

    Attributes:
        outcome: The HTTP status, or what happened instead.
        ended: When the response ended, in seconds from the start of the load.
        seconds: Seconds from the scheduled time until then.
        lag: Seconds between the scheduled and the actual time of sending.
    """

    outcome: int | str
    ended: float
    seconds: float
    lag: float


def request_bytes(image: bytes, question: str) -> bytes:
    """Returns a multipart request to `/answer` with all its headers."""
    boundary = "load-benchmark"
    parts = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="question"\r\n\r\n{question}\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="image.jpg"\r\n'
        "Content-Type: image/jpeg\r\n\r\n"
    ).encode()
    body = parts + image + f"\r\n--{boundary}--\r\n".encode()
    head = (
        f"POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n"
    )
    return head.encode() + body


def arrival_times(rate: float, seconds: float, seed: int, uniform: bool = False) -> list[float]:
    """Returns times in [0, seconds): a Poisson process with `rate` arrivals per second, or evenly spaced."""
    if uniform:
        return [number / rate for number in range(int(rate * seconds))]
    draw, times, now = random.Random(seed), [], 0.0
    while (now := now + draw.expovariate(rate)) < seconds:
        times.append(now)
    return times


async def exchange(address: tuple[str, int], request: bytes) -> int | str:
    """Sends a request over a new connection; returns the status, or the kind of error."""
    writer = None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request)
            response = await reader.read()
        return int(response[9:12]) if response[:5] == b"HTTP/" else "cut off"
    except TimeoutError:
        return "timed out"
    except OSError as error:
        return type(error).__name__
    finally:
        if writer is not None:
            writer.close()


async def open_loop(address: tuple[str, int], requests: Sequence[bytes], times: Sequence[float]) -> list[Reply]:
    """Sends the requests in turn at `times`, in seconds from now."""
    start = time.perf_counter()

    async def one(due: float, request: bytes) -> Reply:
        left = time.perf_counter() - start
        outcome = await exchange(address, request)
        ended = time.perf_counter() - start
        return Reply(outcome, ended, ended - due, left - due)

    tasks = []
    for number, due in enumerate(times):
        if (wait := start + due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due, requests[number % len(requests)])))
    return [await task for task in tasks]


async def closed_loop(
    address: tuple[str, int], requests: Sequence[bytes], seconds: float, callers: int
) -> tuple[float, list[float]]:
    """Runs `callers` that each send one request after another; returns answers per second and each answer's seconds.

    Raises:
        OSError: A request was not answered.
    """
    start, took = time.perf_counter(), []
    following = iter(range(10**9))

    async def caller() -> None:
        while (began := time.perf_counter()) < start + seconds:
            outcome = await exchange(address, requests[next(following) % len(requests)])
            if outcome == 429:
                await asyncio.sleep(0.05)
            elif outcome != 200:
                raise OSError(f"a request ended with {outcome}")
            else:
                took.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(took) / (time.perf_counter() - start), took


def figures_of(replies: Sequence[Reply], seconds: float, capacity: float) -> dict[str, Any]:
    """Returns the figures of one load: rates per second, and latencies of answered and refused requests in ms."""
    answered = [reply.seconds * 1000 for reply in replies if reply.outcome == 200]
    refused = [reply.seconds * 1000 for reply in replies if reply.outcome == 429]
    rate = len(answered) / max([seconds, *(reply.ended for reply in replies if reply.outcome == 200)])
    return {
        "requests": len(replies),
        "answered": len(answered),
        "answered_per_s": round(rate, 2),
        "share_of_capacity": round(rate / capacity, 3),
        "refused": len(refused),
        "errors": dict(Counter(str(reply.outcome) for reply in replies if reply.outcome not in (200, 429))),
        "latency_ms": _percentiles(answered),
        "refusal_ms": _percentiles(refused),
        "client_lag_ms": _percentiles([reply.lag * 1000 for reply in replies]),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float | None]:
    return {f"p{q}": percentile(values, q) for q in (50, 95, 99)}
