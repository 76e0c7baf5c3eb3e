"""Puts load on the service from a second process and compares it with the bare pipeline; `make bench-load`.

    python -m benchmarks.load --index INDEX --queries test.csv --query-images queries --out load.json

Three processes take turns while the others idle: the service, the same service with batches of one, and the bare
pipeline (decode, retrieve, generate; no HTTP). First, the capacity of each, with enough callers to fill two batches,
and the latency of one request at a time are measured in turns, so that other load on the machine affects all alike.
Then the service gets open-loop load with Poisson arrivals (`open_loop.py`) at multiples of its capacity.

The client shares the machine's cores with the service, so a measured capacity includes the client's cost. Nothing is
pinned to a core, since the service uses two as well; `client_cpu`, `server_cpu` and `foreign_cpu` are the numbers of
cores that the client, the service and all other processes used during a load. The capacity is measured again at the
end: if it has changed much, the machine was not quiet and the figures are not comparable.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame import arguments, write_report
from benchmarks.open_loop import arrival_times, closed_loop, figures_of, open_loop, request_bytes
from benchmarks.processes import Address, Answerer, answer_lines, cores_between, cpu_seconds, peak_memory, service
from evaluation.datasets import find_query_image
from omgm.commands.common import add_index, add_profile, add_questions, load_questions
from omgm.commands.serve import limit_threads
from omgm.profile import load_profile

GOALS = {
    "batching_gain": 2.5,
    "service_against_bare": 0.85,
    "single_added_ms": 8.0,
    "share_of_capacity": 0.9,
    "p99_against_0.8": 3.0,
}
"""Minimum shares and gains, maximum times; the last two apply at 2 and at 10 times the capacity."""
Pairs = list[tuple[bytes, str]]
"""Images and questions."""


def read_questions(args: argparse.Namespace) -> Pairs:
    """Returns the images as bytes with a question each; each image occurs once."""
    paths: dict[Path, str] = {}
    for question in load_questions(args):
        path = find_query_image(args.query_images, question.image_id)
        if path is not None:
            paths.setdefault(path, question.question)
    if not paths:
        raise ValueError(f"{args.query_images}: contains none of the questions' images")
    return [(path.read_bytes(), question) for path, question in paths.items()]


def answer_turns(args: argparse.Namespace) -> None:
    """Given batch size and seconds, replies with answers per second and milliseconds per batch."""
    from omgm.opening import open_retriever
    from omgm.parts import build_generator
    from omgm.server import freeze_objects
    from retriever.results import Retrieval
    from retriever.types import Query
    from serving.images import decode_image

    profile = load_profile(args.profile, args.overrides)
    retriever, generator, asked = open_retriever(profile, args.index), build_generator(profile), read_questions(args)

    async def answer(part: Pairs) -> None:
        queries = [Query(decode_image(image, profile.serving), question) for image, question in part]
        for query, result in zip(queries, retriever.retrieve(queries), strict=True):
            await generator.generate([Retrieval.of(retriever.index, query, result).request()])

    asyncio.run(answer(asked[:16]))
    freeze_objects()  # as the service does

    def turn(task: tuple[int, float]) -> tuple[float, float]:
        batch, seconds = task
        began, times = time.perf_counter(), list[float]()
        while (started := time.perf_counter()) < began + seconds:
            first = len(times) * batch
            asyncio.run(answer([asked[number % len(asked)] for number in range(first, first + batch)]))
            times.append((time.perf_counter() - started) * 1000)
        return batch * len(times) / (time.perf_counter() - began), statistics.median(times)

    answer_lines(turn)


def bare_pipeline(args: argparse.Namespace) -> Answerer:
    """Starts a process that runs `answer_turns`."""
    paths = {"--index": args.index, "--queries": args.queries, "--query-images": args.query_images}
    named = {"--profile": args.profile, "--dataset": args.dataset, **paths}
    settings = [part for value in args.overrides for part in ("--set", value)]
    given = [str(part) for pair in named.items() for part in pair]
    return Answerer([sys.executable, "-m", "benchmarks.load", *given, *settings, "--bare"])


def compare(args: argparse.Namespace, services: dict[str, Address], bare: Answerer, requests: list[bytes]) -> Any:
    """Measures capacities and single requests in turns; returns the medians over the rounds."""
    rates: dict[str, list[float]] = {}
    singles: dict[str, list[float]] = {}
    seconds = args.seconds / args.rounds
    for _ in range(args.rounds):
        for name, address in services.items():
            rate, _ = asyncio.run(closed_loop(address, requests, seconds, 2 * args.batch))
            rates.setdefault(name, []).append(rate)
        rates.setdefault("bare", []).append(bare.ask([args.batch, seconds])[0])
        _, took = asyncio.run(closed_loop(services["service"], requests, seconds / 2, 1))
        singles.setdefault("service", []).append(statistics.median(took) * 1000)
        singles.setdefault("bare", []).append(bare.ask([1, seconds / 2])[1])
    rate_of = {name: statistics.median(values) for name, values in rates.items()}
    single = {name: statistics.median(values) for name, values in singles.items()}
    return {
        "answers_per_s": {name: round(rate, 2) for name, rate in rate_of.items()},
        "batching_gain": round(rate_of["service"] / rate_of["unbatched"], 3),
        "service_against_bare": round(rate_of["service"] / rate_of["bare"], 3),
        "single_ms": {name: round(ms, 2) for name, ms in single.items()},
        "single_added_ms": round(single["service"] - single["bare"], 2),
    }


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; returns the report."""
    # Set in the environment of all processes: OpenMP reads it only once, when PyTorch is imported.
    limit_threads(load_profile(args.profile, args.overrides).serving.model_threads)
    asked = read_questions(args)
    requests = [request_bytes(image, question) for image, question in asked]
    with ExitStack() as stack:
        bare = stack.enter_context(closing(bare_pipeline(args)))
        # There are only a few images, and each must count as a new one.
        serve = partial(service, args.profile, args.index, workers=args.workers)
        settings = ["serving.cache_mib=0", *args.overrides]
        process, address = stack.enter_context(serve(settings))
        _, unbatched = stack.enter_context(serve([*settings, "serving.max_batch=1", "serving.max_wait_s=60"]))
        asyncio.run(closed_loop(address, requests, 1.0, 2 * args.batch))
        compared = compare(args, {"service": address, "unbatched": unbatched}, bare, requests)
        capacity = args.capacity or compared["answers_per_s"]["service"]
        loads = []
        for factor in args.factors:
            peak_memory(process, reset=True)
            times = arrival_times(factor * capacity, args.seconds, args.seed, args.uniform)
            before = cpu_seconds(process)
            replies = asyncio.run(open_loop(address, requests, times))
            figures = {"factor": factor, **figures_of(replies, args.seconds, capacity)}
            figures |= cores_between(before, cpu_seconds(process))
            loads.append(figures | {"peak_memory_mib": peak_memory(process)})
            print(json.dumps(loads[-1]), flush=True)
        after, _ = asyncio.run(closed_loop(address, requests, min(args.seconds, 10.0), 2 * args.batch))
    by_factor = {load["factor"]: load["latency_ms"]["p99"] for load in loads}
    for load_figures in loads:
        calm, p99 = by_factor.get(0.8), load_figures["latency_ms"]["p99"]
        load_figures["p99_against_0.8"] = round(p99 / calm, 3) if calm and p99 else None
    return {
        "profile": args.profile,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seconds": args.seconds,
        "seed": args.seed,
        "arrivals": "uniform" if args.uniform else "poisson",
        "images": len(asked),
        "image_bytes": round(statistics.median(len(image) for image, _ in asked)),
        "capacity_per_s": capacity,
        "capacity_afterwards_per_s": round(after, 2),
        **compared,
        "goals": goals_of(compared, loads),
        "loads": loads,
    }


def goals_of(compared: dict[str, Any], loads: list[dict[str, Any]]) -> dict[str, bool]:
    """Returns which of `GOALS` are met."""
    met = {
        "batching_gain": compared["batching_gain"] >= GOALS["batching_gain"],
        "service_against_bare": compared["service_against_bare"] >= GOALS["service_against_bare"],
        "single_added_ms": compared["single_added_ms"] <= GOALS["single_added_ms"],
    }
    for figures in loads:
        if figures["factor"] not in (2, 10):
            continue
        name = f"at {figures['factor']:g}"
        met[f"share_of_capacity {name}"] = figures["share_of_capacity"] >= GOALS["share_of_capacity"]
        if figures["p99_against_0.8"] is not None:
            met[f"p99_against_0.8 {name}"] = figures["p99_against_0.8"] <= GOALS["p99_against_0.8"]
        met[f"no errors {name}"] = not figures["errors"]
    return met


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    add_profile(parser)
    parser.add_argument("--workers", type=int, default=1, help="processes of the service (%(default)s)")
    add_index(parser)
    add_questions(parser)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="turns of the comparison (%(default)s)")
    parser.add_argument("--factors", type=float, nargs="*", default=[0.5, 0.8, 1.0, 2.0, 10.0])
    parser.add_argument("--capacity", type=float, help="answers per second, instead of the measured number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--uniform", action="store_true", help="arrivals at even intervals, not a Poisson process")
    parser.set_defaults(out=Path("load.json"))
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.bare:
        answer_turns(args)
        return
    args.batch = load_profile(args.profile, args.overrides).serving.max_batch
    report = measure(args)
    write_report(args.out, report)
    print(json.dumps({key: value for key, value in report.items() if key not in ("loads", "goals")}, indent=1))
    for goal, met in report["goals"].items():
        print(f"{'passed' if met else 'FAILED'}  {goal}")


if __name__ == "__main__":
    main()
