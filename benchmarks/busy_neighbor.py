"""Times retrieval beside busy processes, for several ways in which OpenMP's threads may wait for each other.

    python benchmarks/busy_neighbor.py --index INDEX --queries test.csv --query-images queries

Each way is a process of its own, started with its environment variables. They take turns on the same questions, in a
new random order every round, beside 0, 1 and 2 processes that do nothing but compute. So other load on the machine
affects all of them alike. The figures are milliseconds of single queries: read the ratios.
"""

from __future__ import annotations

import argparse
import json
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
    """Retrieves for each line of standard input, a list of query numbers, and writes the milliseconds as a line."""
    from benchmarks.retrieval import read_queries
    from evaluation.datasets import load
    from omgm.opening import open_retriever
    from omgm.profile import load_profile

    queries = read_queries(load("evqa", args.queries), args.query_images, 50)
    retriever = open_retriever(load_profile(args.profile), args.index)
    for query in queries[:5]:
        retriever.retrieve([query])
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for number in json.loads(line):
            started = time.perf_counter()
            retriever.retrieve([queries[number % len(queries)]])
            times.append((time.perf_counter() - started) * 1000)
        print(json.dumps(times), flush=True)


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


class Worker:
    """A process that retrieves with OpenMP set up in one way."""

    def __init__(self, variables: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in CONTROLLED}
        command = [sys.executable, __file__, *sys.argv[1:], "--turns"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=kept | variables
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        if self._answers.readline() != "ready\n":
            raise SystemExit(f"the process with {variables} did not start")

    def times(self, numbers: list[int]) -> list[float]:
        """Returns the milliseconds of each query."""
        self._questions.write(json.dumps(numbers) + "\n")
        self._questions.flush()
        return [float(ms) for ms in json.loads(self._answers.readline())]

    def close(self) -> None:
        """Ends the process."""
        self._questions.close()
        self._process.wait()


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
    workers = {way: Worker(variables) for way, variables in WAYS.items()}
    for number in range(args.rounds):
        for count in NEIGHBORS:
            with busy(count):
                for way in random.Random(f"{number} {count}").sample(list(WAYS), len(WAYS)):
                    times[count, way] += workers[way].times(list(range(number * PER_TURN, (number + 1) * PER_TURN)))
    for worker in workers.values():
        worker.close()
    for count in NEIGHBORS:
        first = sorted(times[count, next(iter(WAYS))])
        for way in WAYS:
            found = sorted(times[count, way])
            p50, p95 = found[len(found) // 2], found[int(len(found) * 0.95)]
            ratio = p50 / first[len(first) // 2]
            print(f"{count} busy  {way:24} p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  ratio {ratio:.2f}  ({len(found)})")


if __name__ == "__main__":
    main()
