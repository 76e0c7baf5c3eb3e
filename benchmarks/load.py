"""Puts load on the service from another process and compares it with a plain server; `make bench-load`.

    python -m benchmarks.load --index INDEX --queries test.csv --query-images queries --out load.json

Three servers take turns while the others idle: the service, the same service with batches of one, and a plain FastAPI
server with the same models (`plain_server.py`), which also says how long the parts of a request take without HTTP:
decoding, retrieval, reading. First, capacities, with enough callers to fill two batches, and the latency of one request
at a time are measured in turns, so that other load on the machine affects all alike. Then the service, and at twice its
capacity the plain server, get open-loop load with Poisson arrivals (`open_loop.py`) at multiples of the capacity.

Every image is a new one, by a number behind its last byte, which no cache has seen; the images and questions of the
file are combined until all pairs have been asked. `--client-core` leaves one core to the client and the others to the
servers. With two cores, the models use both; the client then shares them, and a capacity includes its cost.
`client_cpu`, `server_cpu` and `foreign_cpu` are the numbers of cores that the client, the server and all other
processes used during a load. The capacity is measured again at the end: if it has changed much, the machine was not
quiet and the figures are not comparable.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from benchmarks.frame import arguments, processor, write_report
from benchmarks.open_loop import arrival_times, closed_loop, figures_of, open_loop, request_bytes
from benchmarks.processes import Address, Running, cores_between, cpu_seconds, peak_memory, server, service
from evaluation.datasets import find_query_image
from evaluation.metrics import percentile
from omgm.commands.common import add_index, add_profile, add_questions, load_questions
from omgm.commands.serve import limit_threads
from omgm.profile import load_profile

GOALS = {
    "capacity_per_s": 40.0,
    "retrievals_per_s": 100.0,
    "batching_gain": 2.5,
    "single_ms": 50.0,
    "single_added_ms": 2.0,
    "share_of_capacity": 0.95,
    "p99_against_0.8": 3.0,
    "client_cpu": 0.1,
}
"""With the default settings on two cores; the last three apply at 2 and at 10 times the capacity."""
MOST = {"single_ms", "single_added_ms", "p99_against_0.8", "client_cpu"}
"""The goals that are upper limits."""


class Requests:
    """The requests of a file of questions: each image with its question, then with the next one's, and so on."""

    def __init__(self, args: argparse.Namespace) -> None:
        located = ((find_query_image(args.query_images, one.image_id), one) for one in load_questions(args))
        rows = [(path, question.question) for path, question in located if path is not None]
        if not rows:
            raise ValueError(f"{args.query_images}: contains none of the questions' images")
        files = {path: path.read_bytes() for path, _ in rows}
        self.images, self.questions = [files[path] for path, _ in rows], [question for _, question in rows]
        self._sent = count()

    def __call__(self, start: int = 0, path: str = "/answer") -> Iterator[bytes]:
        """Yields requests without end, the same ones for the same `start` but for the numbers of their images."""
        rows = len(self.images)
        for number in count(start):
            image = self.images[number % rows] + next(self._sent).to_bytes(8, "big")
            yield request_bytes(image, self.questions[(number + number // rows) % rows], path)


def compare(args: argparse.Namespace, servers: dict[str, Address], requests: Requests) -> dict[str, Any]:
    """Measures capacities and single requests in turns; returns the medians over the rounds."""
    rates, times = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    stages = {"alone": Counter[str](), "full": Counter[str]()}
    seconds, parts = args.seconds / args.rounds, f"http://127.0.0.1:{servers['plain'][1]}/parts"
    for number in range(args.rounds):
        start = number * 1000
        for name, address in servers.items():
            with counted_stages(address, stages["full"] if name == "service" else Counter()):
                rates[name].append(closed_loop(address, requests(start), seconds, 2 * args.batch)[0])
        retrieved = closed_loop(servers["service"], requests(start, "/retrieve"), seconds, 2 * args.batch)
        rates["retrieve"].append(retrieved[0])
        load_json(parts)  # those of the turn above do not count
        alone = {}
        for name in ("service", "plain"):
            with counted_stages(servers[name], stages["alone"] if name == "service" else Counter()):
                alone[name] = closed_loop(servers[name], requests(start), seconds, 1)[1]
        took = {name: [1000 * value for value in values] for name, values in alone.items()}
        for name, values in {**took, "parts": load_json(parts)}.items():
            times[name] += values[: min(map(len, took.values()))]  # of the same requests
    rate_of = {name: round(statistics.median(values), 2) for name, values in rates.items()}
    retrievals = rate_of.pop("retrieve")
    added = {
        name: statistics.median(one - other for one, other in zip(times[name], times["parts"], strict=True))
        for name in ("service", "plain")
    }
    return {
        "capacity_per_s": rate_of["service"],
        "retrievals_per_s": retrievals,
        "answers_per_s": rate_of,
        "batching_gain": round(rate_of["service"] / rate_of["unbatched"], 3),
        "service_against_plain": round(rate_of["service"] / rate_of["plain"], 3),
        "single_ms": round(statistics.median(times["service"]), 2),
        "single_p95_ms": percentile(times["service"], 95),
        "parts_ms": round(statistics.median(times["parts"]), 2),
        "single_added_ms": round(added["service"], 2),
        "plain_added_ms": round(added["plain"], 2),
        "stages_ms": {
            when: {
                name: round(1000 * total / sums["requests"], 2) for name, total in sums.items() if name != "requests"
            }
            for when, sums in stages.items()
        },
    }


@contextmanager
def counted_stages(address: Address, sums: Counter[str]) -> Iterator[None]:
    """Adds the seconds of each stage during a block, by the service's metrics, and the number of its requests."""
    before = read_stages(address)
    yield
    sums.update({name: value - before.get(name, 0.0) for name, value in read_stages(address).items()})


def read_stages(address: Address) -> dict[str, float]:
    """Returns the seconds of each stage since the start, and the number of requests."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/metrics") as response:
            text = response.read().decode()
    except HTTPError:  # the plain server has none
        return {}
    rows = re.findall(r'^omgm_stage_duration_seconds_(sum|count){stage="(\w+)"} (\S+)', text, re.MULTILINE)
    found = {name: float(value) for kind, name, value in rows if kind == "sum"}
    return found | {"requests": sum(float(value) for kind, name, value in rows if (kind, name) == ("count", "decode"))}


def load_json(url: str) -> Any:
    """Returns the JSON at a URL of this machine."""
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def put_load(running: Running, requests: Iterator[bytes], rate: float, seconds: float, seed: int) -> dict[str, Any]:
    """Puts open-loop load on a server; returns the figures, of which `share_of_capacity` is relative to `rate`."""
    pid, address = running[0].pid, running[1]
    peak_memory(pid, reset=True)
    before = cpu_seconds(pid)
    replies = open_loop(address, requests, arrival_times(rate, seconds, seed))
    cores = cores_between(before, cpu_seconds(pid))
    return {**figures_of(replies, seconds), **cores, "peak_memory_mib": peak_memory(pid)}


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; returns the report."""
    # Set in the environment of all processes: OpenMP reads it only once, when PyTorch is imported.
    limit_threads(load_profile(args.profile, args.overrides).serving.model_threads)
    requests, cores = Requests(args), os.sched_getaffinity(0)
    given = [part for value in args.overrides for part in ("--set", value)]
    plain = (sys.executable, "-m", "benchmarks.plain_server", "--profile", args.profile, *given)
    if args.client_core is not None:
        os.sched_setaffinity(0, cores - {args.client_core})
    with ExitStack() as stack:
        running = stack.enter_context(service(args.profile, args.index, args.overrides, args.workers))
        alone = [*args.overrides, "serving.max_batch=1", "serving.max_wait_s=60"]
        _, unbatched = stack.enter_context(service(args.profile, args.index, alone, args.workers))
        compared_with = stack.enter_context(server(*plain, "--index", str(args.index)))
        if args.client_core is not None:
            os.sched_setaffinity(0, {args.client_core})
        servers = {"service": running[1], "unbatched": unbatched, "plain": compared_with[1]}
        for address in servers.values():
            closed_loop(address, requests(), 1.0, 2 * args.batch)
        compared = compare(args, servers, requests)
        capacity, loads = compared["capacity_per_s"], list[dict[str, Any]]()
        for number, factor in enumerate(args.factors, start=10):
            figures = put_load(running, requests(number * 1000), factor * capacity, args.seconds, args.seed)
            loads.append({"factor": factor, **figures})
            print(json.dumps(loads[-1]), flush=True)
        overload = put_load(compared_with, requests(), 2 * capacity, min(args.seconds, 10.0), args.seed)
        after, _ = closed_loop(running[1], requests(), min(args.seconds, 10.0), 2 * args.batch)
    calm = next((load["latency_ms"]["p99"] for load in loads if load["factor"] == 0.8), None)
    for load in loads:
        p99 = load["latency_ms"]["p99"]
        load["share_of_capacity"] = round(load["answered_per_s"] / capacity, 3)
        load["p99_against_0.8"] = round(p99 / calm, 3) if calm and p99 else None
    return {
        "profile": args.profile,
        "machine": f"{processor()}, {len(cores)} cores",
        "client_core": args.client_core,
        "seconds": args.seconds,
        "seed": args.seed,
        "images": len(set(requests.images)),
        "questions": len(set(requests.questions)),
        "image_bytes": round(statistics.median(map(len, requests.images))),
        **compared,
        "capacity_afterwards_per_s": round(after, 2),
        "goals": goals_of(compared, loads),
        "loads": loads,
        "plain_at_2": overload,
    }


def goals_of(compared: dict[str, Any], loads: list[dict[str, Any]]) -> dict[str, bool]:
    """Returns which of `GOALS` are met."""
    values = {name: compared[name] for name in GOALS if name in compared}
    for load in loads:
        if load["factor"] in (2, 10):
            values |= {f"{name} at {load['factor']:g}": load[name] for name in GOALS if name in load}
            values[f"no errors at {load['factor']:g}"] = not load["errors"]
    return {name: _met(name, value) for name, value in values.items() if value is not None}


def _met(name: str, value: float) -> bool:
    goal = name.partition(" at ")[0]
    return value <= GOALS[goal] if goal in MOST else value >= GOALS.get(goal, True)


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    add_profile(parser)
    parser.add_argument("--workers", type=int, help="processes that run the models (by default, serving.processes)")
    add_index(parser)
    add_questions(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of the comparison (%(default)s)")
    parser.add_argument("--factors", type=float, nargs="*", default=[0.5, 0.8, 1.0, 2.0, 10.0])
    parser.add_argument("--client-core", type=int, metavar="N", help="the core of the client, if there are more than 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(out=Path("load.json"))
    args = parser.parse_args(argv)
    cores = os.sched_getaffinity(0)
    if args.client_core is not None and (len(cores) < 3 or args.client_core not in cores):
        parser.error(f"--client-core: must be one of at least three cores, got {args.client_core} of {sorted(cores)}")
    args.batch = load_profile(args.profile, args.overrides).serving.max_batch
    report = measure(args)
    write_report(args.out, report)
    print(json.dumps({key: value for key, value in report.items() if key not in ("loads", "goals")}, indent=1))
    for goal, met in report["goals"].items():
        print(f"{'passed' if met else 'FAILED'}  {goal}")


if __name__ == "__main__":
    main()
