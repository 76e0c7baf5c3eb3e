from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.load import goals_of
from benchmarks.open_loop import Reply, arrival_times, closed_loop, exchange, figures_of, open_loop, request_bytes
from benchmarks.processes import Answerer, cores_between, cpu_seconds, peak_memory
from tests.fakes.connection import address_of
from tests.fakes.images import image_bytes
from tests.fakes.service import SMALL, full, served

RED = request_bytes(image_bytes("red"), "When was the treaty?")


def test_arrivals_are_fixed_beforehand() -> None:
    assert arrival_times(4, 1.5, seed=0, uniform=True) == [0, 0.25, 0.5, 0.75, 1.0, 1.25]
    times = arrival_times(100, 50, seed=3)
    assert times == arrival_times(100, 50, seed=3) != arrival_times(100, 50, seed=4)
    assert times == sorted(times) and times[-1] < 50
    assert abs(len(times) - 5000) < 4 * 5000**0.5  # the variance of a Poisson distribution is its mean
    gaps = [b - a for a, b in pairwise(times)]
    assert sum(gap > 0.01 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)  # a share exp(-1) is longer


def test_figures() -> None:
    """Answers after 100 ms, 200 ms ... 1000 ms, one refusal after 5 ms and one connection reset."""
    replies = [Reply(200, number, number / 10, 0.001) for number in range(1, 11)]
    replies += [Reply(429, 2.0, 0.005, 0.001), Reply("ConnectionResetError", 2.0, 0.1, 0.001)]
    found = figures_of(replies, seconds=8.0, capacity=2.0)
    assert (found["requests"], found["answered"], found["refused"]) == (12, 10, 1)
    assert found["answered_per_s"] == 1.0  # the last answer came after 10 s, 2 s after the end of the load
    assert found["share_of_capacity"] == 0.5
    assert found["errors"] == {"ConnectionResetError": 1}
    assert found["latency_ms"] == {"p50": 550.0, "p95": 955.0, "p99": 991.0}
    assert found["refusal_ms"]["p50"] == 5.0 and found["client_lag_ms"]["p99"] == 1.0


def test_both_loops_ask_a_real_service(tmp_path: Path) -> None:
    with served(tmp_path) as world:
        replies = asyncio.run(open_loop(address_of(world.url), [RED], [0, 0.01, 0.02]))
        assert [reply.outcome for reply in replies] == [200] * 3
        assert all(reply.ended >= reply.seconds >= reply.lag >= 0 for reply in replies)
        rate, took = asyncio.run(closed_loop(address_of(world.url), [RED], 0.2, 4))
        assert rate > 0 and len(took) >= 4
        assert len(world.retriever.asked) == 3 + len(took)


def test_refusals_and_errors_are_told_apart(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, full(world):
        assert asyncio.run(exchange(address_of(world.url), RED)) == 429
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert asyncio.run(exchange(unused.getsockname(), RED)) == "ConnectionRefusedError"


def test_goals() -> None:
    compared = {"batching_gain": 2.5, "service_against_bare": 0.84, "single_added_ms": 8.0}
    calm = {"factor": 0.8, "share_of_capacity": 0.7, "p99_against_0.8": 1.0, "errors": {}}
    loads = [calm, {"factor": 10.0, "share_of_capacity": 0.9, "p99_against_0.8": 3.1, "errors": {"503": 1}}]
    assert goals_of(compared, loads) == {
        "batching_gain": True,
        "service_against_bare": False,
        "single_added_ms": True,
        "share_of_capacity at 10": True,
        "p99_against_0.8 at 10": False,
        "no errors at 10": False,
    }


def test_cores_are_processor_time_per_second() -> None:
    before = {"wall": 10.0, "client": 1.0, "server": 2.0, "all": 100.0}
    after = {"wall": 20.0, "client": 2.5, "server": 12.0, "all": 118.5}
    assert cores_between(before, after) == {"client_cpu": 0.15, "server_cpu": 1.0, "foreign_cpu": 0.7}
    assert cores_between(None, None) == {"client_cpu": None, "server_cpu": None, "foreign_cpu": None}


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="processor times are read from Linux's /proc")
def test_the_processor_time_of_a_process() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        seconds = cpu_seconds(process)  # mostly used by its child process
        assert seconds is not None and 0.25 <= seconds["server"] <= 5 and seconds["all"] > seconds["server"]
        alone = int(Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
        memory = peak_memory(process)
        assert memory is not None and memory > alone + 1
        process.communicate(b"\n")


def test_a_process_answers_line_by_line() -> None:
    code = "from benchmarks.processes import answer_lines; answer_lines(lambda numbers: [2 * n for n in numbers])"
    with closing(Answerer([sys.executable, "-c", code])) as answerer:
        assert answerer.ask([1, 2]) == [2, 4] and answerer.ask([]) == []


def test_a_process_that_does_not_start() -> None:
    with pytest.raises(OSError, match="did not start"):
        Answerer([sys.executable, "-c", "raise SystemExit(1)"])
