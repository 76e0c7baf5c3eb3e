"""`omgm serve --replicas`, on a local Ray cluster. Not part of `make test`, because it takes minutes:

pip install -c constraints.txt -e ".[cpu,dev,ray]" && make test ARGS=tests/omgm/test_replicas.py
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from omgm.__main__ import main
from omgm.commands.numbers import replica_range
from omgm.profile import load_profile
from omgm.replicas import _options, _placed, running_replicas
from omgm.served_app import READ_ONLY
from tests.fakes.chat_server import FakeChatServer
from tests.fakes.listening import free_port
from tests.fakes.processes import run_python
from tests.fakes.service import wait_until
from tests.paths import ROOT


def test_numbers_and_ranges() -> None:
    assert [replica_range(text) for text in ("1", "3", "1-4", "2-2")] == [(1, 1), (3, 3), (1, 4), (2, 2)]
    for text in ("0", "-1", "4-1", "two", "1-", "1-2-3", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="a range such as 1-4"):
            replica_range(text)


@pytest.mark.parametrize(
    ("device", "here", "gpus", "address", "expected"),
    [
        ("auto", True, 2, "local", "cuda"),
        ("auto", False, 2, "local", "cpu"),  # PyTorch cannot use them
        ("auto", False, 0, "local", "cpu"),
        ("auto", False, 2, "auto", "cuda"),  # the head of the cluster has none itself
        ("auto", True, 0, "auto", "cpu"),  # which Ray was told not to use
        ("cpu", True, 2, "local", "cpu"),
        ("cuda", False, 0, "auto", "cuda"),  # a cluster may grow
    ],
)
def test_each_replica_on_a_gpu_gets_one(
    device: str, here: bool, gpus: int, address: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: here)
    resources = {"CPU": 8.0} | ({"GPU": float(gpus)} if gpus else {})
    profile = _placed(load_profile("embedded", [f"device={device}"]), resources, address)
    assert profile.device == expected
    actors = _options(profile, (2, 2))["ray_actor_options"]
    assert actors == {"num_cpus": 1, "num_gpus": int(expected == "cuda")}


def test_without_the_extra(
    example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    assert main(["serve", "--index", str(example_folder / "index"), "--replicas", "2"]) != 0
    assert "extra ray" in capsys.readouterr().err


def test_without_a_cluster(
    example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert main(["serve", "--index", str(example_folder / "index"), "--replicas", "2"]) == 2
    assert f"RAY_ADDRESS {address}: no Ray cluster at {address}" in capsys.readouterr().err


def test_more_than_this_machine_has(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    assert main(["serve", "--index", str(example_folder / "index"), "--replicas", "1000-2000"]) == 2
    assert "omgm: error: --replicas 1000 needs 1000 cores, but there are " in capsys.readouterr().err


def test_why_a_replica_does_not_start(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    index = example_folder / "index"
    (index / "tokens.npy").write_bytes(b"")
    assert main(["serve", "--index", str(index), "--replicas", "1", "--port", str(free_port())]) == 2
    said = f"omgm: error: the replicas did not start: ValueError: {index}/tokens.npy: 0 bytes, but the manifest says"
    assert said in capsys.readouterr().err


def test_sigterm_stops_the_replicas_after_what_runs(example_folder: Path) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    port = free_port()
    with FakeChatServer() as chat, ThreadPoolExecutor(1) as pool:
        generator = {"kind": "openai", "base_url": f"{chat.url}/v1", "model": "slow"}
        settings = [word for name, value in generator.items() for word in ("--set", f"generator.{name}={value}")]
        arguments = ["serve", "--index", str(example_folder / "index"), "--replicas", "1", "--port", str(port)]
        command = [sys.executable, "-m", "omgm", *arguments, *settings]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Serving ")
            running = pool.submit(ask, f"http://127.0.0.1:{port}", (example_folder / "photo.jpg").read_bytes())
            wait_until(lambda: bool(chat.bodies))
            process.terminate()
            status, answer = running.result()
            assert status == 200 and answer is not None and answer.endswith("The answer is:")  # an echo of the prompt
            assert process.stdout.read().startswith("Stopping the replicas\n")  # Ray's own output may follow
    assert process.returncode == 0


def test_what_else_a_cluster_serves(example_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    class Other:
        def __call__(self) -> str:
            return "other"

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    first, second = free_port(), free_port()
    start = partial(running_replicas, load_profile("embedded"), example_folder / "index", (1, 1), "127.0.0.1")
    photo = (example_folder / "photo.jpg").read_bytes()
    try:
        ray.init(cluster.address, log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": first})
        other: Any = serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})(Other)
        serve.run(other.bind(), name="omgm")
        ray.shutdown()  # as a command that is killed leaves it
        with start(second):
            assert ask(f"http://127.0.0.1:{second}", photo) == (200, "Tokyo")
            with pytest.raises(httpx.ConnectError):
                ask(f"http://127.0.0.1:{first}", photo)
            serve.run(other.bind(), name="other", route_prefix="/other")
        with pytest.raises(ValueError, match="Ray Serve runs other on this cluster"), start(second):
            pass
        assert httpx.get(f"http://127.0.0.1:{second}/other", trust_env=False).text == "other"
    finally:
        cluster.shutdown()


def test_one_command_at_a_time_serves_a_cluster(example_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    photo = (example_folder / "photo.jpg").read_bytes()
    ports = free_port(), free_port()
    commands = [
        ["-m", "omgm", "serve", "--index", str(example_folder / "index"), "--replicas", "1", "--port", str(port)]
        for port in ports
    ]
    try:
        with subprocess.Popen([sys.executable, *commands[0]], stdout=subprocess.PIPE, text=True, cwd=ROOT) as first:
            assert first.stdout is not None and first.stdout.readline().startswith("Serving ")
            refused = run_python(*commands[1])
            message = (
                f"already serves on this cluster (process {first.pid} on {socket.gethostname()}); use another cluster"
            )
            assert refused.returncode == 2 and message in refused.stderr
            assert ask(f"http://127.0.0.1:{ports[0]}", photo) == (200, "Tokyo")
            first.kill()
        with subprocess.Popen([sys.executable, *commands[1]], stdout=subprocess.PIPE, text=True, cwd=ROOT) as second:
            assert second.stdout is not None and second.stdout.readline().startswith("Serving ")
            assert ask(f"http://127.0.0.1:{ports[1]}", photo) == (200, "Tokyo")
            second.terminate()
            assert second.stdout.read().startswith("Stopping the replicas\n")
        assert second.returncode == 0
    finally:
        cluster.shutdown()


@pytest.fixture
def url(example_folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of as many replicas as the test asks for."""
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    port = free_port()
    profile = load_profile("embedded")
    with running_replicas(profile, example_folder / "index", request.param, "127.0.0.1", port):
        yield f"http://127.0.0.1:{port}"


def replicas() -> list[str]:
    import ray

    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if "SERVE_REPLICA" in actor["name"]]


def ask(url: str, photo: bytes) -> tuple[int, str | None]:
    question = {"question": "What is the capital of this country?"}
    files = {"image": photo}
    response = httpx.post(f"{url}/answer", files=files, data=question, timeout=60, trust_env=False, verify=False)
    return response.status_code, response.json()["answer"] if response.is_success else None


@pytest.mark.parametrize("url", [(1, 2)], indirect=True)
@pytest.mark.filterwarnings("ignore")  # Ray's
def test_a_second_replica_comes_with_the_load(example_folder: Path, url: str) -> None:
    photo = (example_folder / "photo.jpg").read_bytes()
    outcomes, stop = Counter[tuple[int, str | None]](), threading.Event()

    def caller() -> None:
        while not stop.is_set():
            outcomes[ask(url, photo)] += 1

    assert ask(url, photo) == (200, "Tokyo")
    assert len(replicas()) == 1
    with ThreadPoolExecutor(24) as pool:  # three times the requests that one replica is meant to have
        callers = [pool.submit(caller) for _ in range(24)]
        deadline = time.monotonic() + 240  # Ray waits for half a minute before it believes a load
        while len(replicas()) < 2 and time.monotonic() < deadline:
            time.sleep(1)
        stop.set()
        for done in callers:
            done.result()
    assert len(replicas()) == 2
    assert set(outcomes) <= {(200, "Tokyo"), (429, None)}


@pytest.mark.parametrize("url", [(2, 2)], indirect=True)
@pytest.mark.filterwarnings("ignore")  # Ray's
def test_a_replica_is_killed_under_load(example_folder: Path, url: str) -> None:
    """Every answer is right; until Ray notices that a replica is gone, a request may fail with a documented error."""
    import ray

    photo = (example_folder / "photo.jpg").read_bytes()
    outcomes, stop = list[tuple[int, str | None]](), threading.Event()

    def caller() -> None:
        while not stop.is_set():
            outcomes.append(ask(url, photo))

    assert ask(url, photo) == (200, "Tokyo")
    refused = httpx.delete(f"{url}/entities/a", trust_env=False, verify=False)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "read_only")
    assert len(refused.headers.get_list("x-request-id")) == 1  # Ray's server adds it
    assert READ_ONLY in refused.json()["error"]["message"]
    first = replicas()
    assert len(first) == 2
    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(caller) for _ in range(4)]
        wait_until(lambda: len(outcomes) >= 20)
        ray.kill(ray.get_actor(first[0], namespace="serve"))
        after = len(outcomes)
        wait_until(lambda: len(outcomes) >= after + 60)
        stop.set()
        for done in callers:
            done.result()
    counted = Counter(outcomes)
    assert set(counted) <= {(200, "Tokyo"), (500, None), (503, None), (429, None)}
    assert counted[200, "Tokyo"] >= len(outcomes) - 8  # the replica's own requests, and a few until Ray notices
    assert ask(url, photo) == (200, "Tokyo")
    print(counted)
