from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import threading
from itertools import islice, pairwise, repeat
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from benchmarks.load import Requests, goals_of
from benchmarks.open_loop import Reply, arrival_times, closed_loop, figures_of, open_loop, request_bytes
from benchmarks.plain_server import plain_app
from benchmarks.processes import cores_between, cpu_seconds, peak_memory, server
from omgm import OMGM
from omgm.commands.common import add_questions
from tests.fakes.connection import address_of
from tests.fakes.images import image_bytes
from tests.fakes.service import SMALL, full, served

RED = request_bytes(image_bytes("red"), "When was the treaty?")


def exchange(address: tuple[str, int], request: bytes) -> int | str:
    """Sends one request; returns the status, or what happened instead."""
    [reply] = open_loop(address, iter([request]), [0.0])
    return reply.outcome


def test_arrivals_are_fixed_beforehand() -> None:
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
    found = figures_of(replies, seconds=8.0)
    assert (found["requests"], found["answered"], found["refused"]) == (12, 10, 1)
    assert found["answered_per_s"] == 1.0  # the last answer came after 10 s, 2 s after the end of the load
    assert found["errors"] == {"ConnectionResetError": 1}
    assert found["latency_ms"] == {"p50": 550.0, "p95": 955.0, "p99": 991.0}
    assert found["refusal_ms"]["p50"] == 5.0 and found["client_lag_ms"]["p99"] == 1.0


def test_every_image_comes_with_its_question_and_then_with_the_others(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        "".join(
            f'{{"image": "{name}", "question": "Which {name}?", "answers": ["a"]}}\n'
            for name in ("red", "gone", "blue")
        )
    )
    for name in ("red", "blue"):
        (tmp_path / f"{name}.jpg").write_bytes(name.encode())
    parser = argparse.ArgumentParser()
    add_questions(parser)
    options = ["--dataset", "plain", "--queries", str(tmp_path / "q.jsonl"), "--query-images", str(tmp_path)]
    requests = Requests(parser.parse_args(options))
    pairs = [("red", "red"), ("blue", "blue"), ("red", "blue"), ("blue", "red"), ("red", "red")]
    expected = [  # each with another number, so that all are new
        request_bytes(image.encode() + number.to_bytes(8, "big"), f"Which {name}?")
        for number, (image, name) in enumerate([*pairs, *pairs[3:]])
    ]
    assert [*islice(requests(), 5), *islice(requests(3), 2)] == expected
    assert next(requests(0, "/retrieve")).startswith(b"POST /retrieve HTTP/1.1\r\n")


def test_both_loops_ask_a_real_service(tmp_path: Path) -> None:
    with served(tmp_path) as world:
        replies = open_loop(address_of(world.url), repeat(RED), [0, 0.01, 0.02])
        assert [reply.outcome for reply in replies] == [200] * 3
        assert all(reply.ended >= reply.seconds >= reply.lag >= 0 for reply in replies)
        rate, took = closed_loop(address_of(world.url), repeat(RED), 0.2, 4)
        assert rate > 0 and len(took) >= 4
        assert len(world.retriever.asked) == 3 + len(took)


def test_refusals_and_errors_are_told_apart(tmp_path: Path) -> None:
    with served(tmp_path, SMALL) as world, full(world):
        assert exchange(address_of(world.url), RED) == 429
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert exchange(unused.getsockname(), RED) == "ConnectionRefusedError"


@pytest.mark.parametrize(("response", "outcome"), [
    (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", 429),  # and the body was not read
    (b"HTTP/1.1 200 OK\r\n\r\n{", "ConnectionResetError"),
    (b"", "ConnectionResetError"),
])  # fmt: skip
def test_a_connection_that_is_reset(response: bytes, outcome: int | str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.sendall(response)
            connection.close()  # with unread data, which resets the connection

        thread = threading.Thread(target=reset)
        thread.start()
        assert exchange(listener.getsockname(), RED + bytes(100_000)) == outcome
        thread.join()


def test_a_service_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.open_loop.TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        [reply] = open_loop(listener.getsockname(), repeat(RED), [0.0])
    assert reply.outcome == "timed out" and 0.1 < reply.seconds < 5


def test_a_closed_loop_stops_at_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="a request ended with ConnectionRefusedError"):
            closed_loop(unused.getsockname(), repeat(RED), 5.0, 2)


def test_goals() -> None:
    compared = {"capacity_per_s": 40.0, "retrievals_per_s": 99.0, "batching_gain": 2.5}
    compared |= {"single_ms": 50.1, "single_added_ms": 2.0}
    calm = {"factor": 0.8, "share_of_capacity": 0.7, "p99_against_0.8": 1.0, "client_cpu": 0.01, "errors": {}}
    full = {"share_of_capacity": 0.95, "p99_against_0.8": 3.1, "client_cpu": 0.11, "errors": {"503": 1}}
    assert goals_of(compared, [calm, {"factor": 10.0, **full}]) == {
        "capacity_per_s": True,
        "retrievals_per_s": False,
        "batching_gain": True,
        "single_ms": False,
        "single_added_ms": True,
        "share_of_capacity at 10": True,
        "p99_against_0.8 at 10": False,
        "client_cpu at 10": False,
        "no errors at 10": False,
    }


def test_the_plain_server_answers_as_the_library_does(examples: Path) -> None:
    image = (examples / "photo.jpg").read_bytes()
    with OMGM.open(examples / "index") as omgm, TestClient(plain_app(omgm)) as client:
        reply = client.post("/answer", files={"image": image}, data={"question": "What is its capital?"}).json()
        answer = omgm.ask(image, "What is its capital?")
        assert answer.entity is not None and (reply["answer"], reply["entity"]) == (answer.answer, answer.entity.title)
        [took] = client.get("/parts").json()
        assert took >= sum(reply["ms"].values()) > 0 and client.get("/parts").json() == []


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
        seconds = cpu_seconds(process.pid)  # mostly used by its child process
        assert seconds is not None and 0.25 <= seconds["server"] <= 5 and seconds["all"] > seconds["server"]
        alone = int(Path(f"/proc/{process.pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
        memory = peak_memory(process.pid)
        assert memory is not None and memory > alone + 1
        process.communicate(b"\n")


def test_a_service_that_does_not_start() -> None:
    with pytest.raises(OSError, match="did not start"), server(sys.executable, "-c", "raise SystemExit(1)"):
        pass
