"""Sends 10,000 hostile requests to a real service and checks how it handles them; `make test-hostile`.

    python -m tests.hostile --index INDEX --out hostile.json

Schemathesis generates some of them from the service's own OpenAPI document (extra `dev`), `requests.py` the
others. The service runs in a second process, on a copy of the index that it may change. It fails if a response is 5xx
(other than 503 and 504, as documented), if a request gets neither a response nor a closed connection, or if a good
request is not answered afterwards. Memory at the end is compared with memory after the first tenth of the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.frame import arguments, write_report
from benchmarks.processes import Address, folders_of, service
from omgm.commands.common import add_index, add_profile
from tests.hostile.requests import HostileRequest, good_request, hostile_requests

TIMEOUT_S = 60.0
"""How long a request may go without a response or a closed connection."""
DRIP_S = 2.0
"""How long a slow client keeps sending before it disconnects."""
EXPECTED = (503, 504)
"""The 5xx statuses that are documented."""


async def send(address: Address, request: HostileRequest) -> int | str:
    """Sends a request in its manner; returns the response's status, or what happened instead."""
    writer = None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            if request.manner == "drip":
                return await _drip(writer, request.data)
            end = random.Random(len(request.data)).randrange(len(request.data)) if request.manner == "cut" else None
            writer.write(request.data[:end])
            if request.manner == "reset":
                await writer.drain()
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return "reset"
            if request.manner == "leave":
                await reader.read(100)
                return "left"
            if request.manner in ("half", "cut"):
                writer.write_eof()
            response = await reader.read(4096)
            while await reader.read(2**16):
                pass
        found = re.match(rb"HTTP/1\.[01] (\d{3}) ", response)
        return int(found[1]) if found else "closed"
    except TimeoutError:
        return "hung"
    except OSError as error:
        return type(error).__name__
    finally:
        if writer is not None:
            writer.close()


async def _drip(writer: asyncio.StreamWriter, data: bytes) -> str:
    """Sends a byte at a time until `DRIP_S` is over."""
    ends = time.monotonic() + DRIP_S
    for byte in data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)
        if time.monotonic() > ends:
            break
    return "dripped"


async def send_all(address: Address, requests: Sequence[HostileRequest], at_once: int) -> Counter[tuple[str, str]]:
    """Sends requests, `at_once` at a time; returns how often each kind of request had each outcome."""
    outcomes: Counter[tuple[str, str]] = Counter()
    left = iter(requests)

    async def caller() -> None:
        for request in left:
            outcomes[request.kind, str(await send(address, request))] += 1

    await asyncio.gather(*(caller() for _ in range(at_once)))
    return outcomes


def schema_cases(document: dict[str, Any], count: int, seed: int) -> Iterator[Any]:
    """Yields about `count` cases that schemathesis generates from an OpenAPI document, valid and invalid ones."""
    import hypothesis
    from schemathesis import GenerationMode, openapi

    schema: Any = openapi.from_dict(document)  # its results may be errors, but the service's document has none
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    settings = hypothesis.settings(
        max_examples=max(1, count // len(operations) // len(modes)),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    for operation, mode in itertools.product(operations, modes):
        yield from _drawn(operation.as_strategy(generation_mode=mode), settings, seed)


def _drawn(strategy: Any, settings: Any, seed: int) -> list[Any]:
    """Returns examples drawn from a Hypothesis strategy."""
    import hypothesis

    cases: list[Any] = []

    def collect(case: Any) -> None:
        cases.append(case)

    with suppress(hypothesis.errors.Unsatisfiable):  # such as an operation for which every request is valid
        given: Any = hypothesis.given  # not typed in full
        draw: Any = hypothesis.seed(seed)(settings(given(strategy)(collect)))
        draw()
    return cases


def send_cases(url: str, cases: Iterable[Any]) -> Counter[tuple[str, str]]:
    """Sends the cases of schemathesis; returns outcomes as `send_all` does."""
    import requests

    outcomes: Counter[tuple[str, str]] = Counter()
    with requests.Session() as session:
        session.trust_env = False
        for case in cases:
            try:
                outcome = str(case.call(base_url=url, session=session, timeout=TIMEOUT_S).status_code)
            except requests.Timeout:
                outcome = "hung"
            except (requests.RequestException, ValueError) as error:  # such as a header that no client can send
                outcome = type(error).__name__
            outcomes[f"schema: {case.method} {case.operation.path}", outcome] += 1
    return outcomes


def faults(outcomes: Counter[tuple[str, str]]) -> dict[str, int]:
    """Returns the forbidden outcomes with their counts."""
    bad = {key for key in outcomes if key[1] == "hung" or (key[1][:1] == "5" and key[1] not in map(str, EXPECTED))}
    return {f"{kind}: {outcome}": outcomes[kind, outcome] for kind, outcome in sorted(bad)}


def resident_mib(process: subprocess.Popen[bytes]) -> float | None:
    """Returns the resident memory of a process and its descendants in MiB; `None` without Linux's /proc."""
    if not Path(f"/proc/{process.pid}/status").is_file():
        return None
    lines = [line for folder in folders_of(process.pid) for line in (folder / "status").read_text().splitlines()]
    return round(sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024, 1)


def is_answered(address: Address) -> bool:
    """Returns whether a good request is answered."""
    return asyncio.run(send(address, HostileRequest("good", good_request()))) == 200


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Sends everything; returns the report."""
    import httpx

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(args.index, Path(folder, "index"))
        settings = ["serving.cache_mib=0", *args.overrides, "serving.timeout_s=20", "serving.upload_timeout_s=20"]
        with service(args.profile, Path(folder, "index"), settings) as (process, address):
            url = "http://{}:{}".format(*address)
            document = httpx.get(f"{url}/openapi.json", trust_env=False, verify=False).json()
            cases = list(schema_cases(document, args.requests * 3 // 10, args.seed))
            own = hostile_requests(args.requests - len(cases), args.seed)
            size = math.ceil(len(own) / 10)
            blocks = [own[start : start + size] for start in range(0, len(own), size)]
            began, outcomes, memory, good = time.perf_counter(), Counter[tuple[str, str]](), list[float | None](), []
            for block in blocks:
                outcomes += asyncio.run(send_all(address, block, args.at_once))
                memory.append(resident_mib(process))
                good.append(is_answered(address))
            outcomes += send_cases(url, cases)
            memory.append(resident_mib(process))
            good.append(is_answered(address))
            ended = process.poll()
    bad = faults(outcomes)
    statuses: Counter[str] = Counter()
    for (_, outcome), number in outcomes.items():
        statuses[outcome] += number
    passed = not bad and all(good) and ended is None
    return {
        "requests": outcomes.total(),
        "seconds": round(time.perf_counter() - began, 1),
        "outcomes": dict(statuses.most_common()),
        "faults": bad,
        "good_requests_answered": f"{sum(good)} of {len(good)}",
        "memory_mib": memory,
        "memory_growth_mib": round(memory[-1] - memory[0], 1) if memory[0] and memory[-1] else None,
        "passed": passed,
        "by_kind": {f"{kind}: {outcome}": number for (kind, outcome), number in sorted(outcomes.items())},
    }


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__)
    add_profile(parser)
    add_index(parser)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=16, help="requests that are sent at the same time (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(out=Path("hostile.json"))
    args = parser.parse_args(argv)
    report = measure(args)
    write_report(args.out, report)
    print(json.dumps({key: value for key, value in report.items() if key != "by_kind"}, indent=1))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
