"""Times retrieval while other processes are busy, for several ways in which OpenMP threads can wait for each other.

    python benchmarks/busy_neighbor.py --index INDEX --queries test.csv --query-images queries

Each way runs in its own process, started with its environment variables. The processes take turns on the same
questions, in a new random order every round, while 0, 1 and 2 other processes keep computing. Other load on the machine
thus affects all ways alike. Figures are milliseconds per single query; compare the ratios.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.started import Answerer, answer_lines

WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
    "GOMP_SPINCOUNT=30000": {"GOMP_SPINCOUNT": "30000"},
    "OMP_NUM_THREADS=1": {"OMP_NUM_THREADS": "1"},
}
CONTROLLED = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
NEIGHBORS = (0, 1, 2)
PER_TURN = 4


def answer_turns(args: argparse.Namespace) -> None:
    """Retrieves for lists of query numbers and replies with the milliseconds of each query."""
    from benchmarks.retrieval import read_queries
    from evaluation.datasets import load
    from omgm.opening import open_retriever
    from omgm.profile import load_profile

    queries = read_queries(load("evqa", args.queries), args.query_images, 50)
    retriever = open_retriever(load_profile(args.profile), args.index)
    for query in queries[:5]:
        retriever.retrieve([query])

    def turn(numbers: list[int]) -> list[float]:
        times = []
        for number in numbers:
            started = time.perf_counter()
            retriever.retrieve([queries[number % len(queries)]])
            times.append((time.perf_counter() - started) * 1000)
        return times

    answer_lines(turn)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps `count` processes computing."""
    neighbors = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for neighbor in neighbors:
            neighbor.kill()
            neighbor.wait()


def worker(variables: dict[str, str]) -> Answerer:
    """Starts a process that runs `answer_turns` with the given environment variables for OpenMP."""
    kept = {name: value for name, value in os.environ.items() if name not in CONTROLLED}
    return Answerer([sys.executable, __file__, *sys.argv[1:], "--turns"], kept | variables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--query-images", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turns:
        answer_turns(args)
        return
    times: dict[tuple[int, str], list[float]] = defaultdict(list)
    workers = {way: worker(variables) for way, variables in WAYS.items()}
    for number in range(args.rounds):
        for count in NEIGHBORS:
            with busy(count):
                for way in random.Random(f"{number} {count}").sample(list(WAYS), len(WAYS)):
                    asked = list(range(number * PER_TURN, (number + 1) * PER_TURN))
                    times[count, way] += workers[way].ask(asked)
    for process in workers.values():
        process.close()
    for count in NEIGHBORS:
        first = sorted(times[count, next(iter(WAYS))])
        for way in WAYS:
            found = sorted(times[count, way])
            p50, p95 = found[len(found) // 2], found[int(len(found) * 0.95)]
            ratio = p50 / first[len(first) // 2]
            print(f"{count} busy  {way:24} p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  ratio {ratio:.2f}  ({len(found)})")


if __name__ == "__main__":
    main()
