"""`omgm serve --replicas` on two machines: network namespaces, each with its own address, host name and /tmp.

Not part of `make test`: it needs root, iproute2's `ip`, and the extra `ray`, see `test_replicas.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.paths import ROOT

ADDRESSES = {"omgm-a": "10.77.1.1", "omgm-b": "10.77.1.2"}
CALLER = """
import collections, json, sys, threading, time, httpx
outcomes, until = collections.Counter(), time.monotonic() + float(sys.argv[3])
photo = open(sys.argv[2], "rb").read()
def call():
    while time.monotonic() < until:
        question = {"question": "What is the capital of this country?"}
        response = httpx.post(sys.argv[1], files={"image": photo}, data=question, timeout=60, trust_env=False)
        outcomes[response.status_code, response.json()["answer"] if response.is_success else None] += 1
callers = [threading.Thread(target=call) for _ in range(24)]
[caller.start() for caller in callers], [caller.join() for caller in callers]
print(json.dumps([[*outcome, count] for outcome, count in outcomes.items()]))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Host:
    """A machine of its own, as far as processes can tell, except for its files outside of /tmp."""

    def __init__(self, name: str) -> None:
        script = f"mount -t tmpfs tmpfs /tmp && hostname {name} && echo up && exec sleep 600"
        words = ["ip", "netns", "exec", name, "unshare", "-m", "-u", "--propagation", "private", "sh", "-c", script]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        with self.process.stdout as output:
            assert output.readline() == "up\n"

    def words(self, *command: str) -> list[str]:
        """Returns a command line that runs `command` on this machine."""
        return ["nsenter", "-t", str(self.process.pid), "-n", "-m", "-u", *command]

    def run(self, *command: str) -> str:
        """Runs a command; returns what it prints."""
        return subprocess.run(self.words(*command), check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Host]]:
    """Two machines with one core each in one Ray cluster; the first is the head."""
    pytest.importorskip("ray.serve", reason="needs the extra ray", exc_type=ImportError)
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with ExitStack() as stack:
        for name in ADDRESSES:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        first, second = ADDRESSES
        ip("link", "add", first, "netns", first, "type", "veth", "peer", "name", second, "netns", second)
        started = []
        for name, address in ADDRESSES.items():
            ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
            for device in ("lo", name):
                ip("-n", name, "link", "set", device, "up")
            started.append(Host(name))
            stack.callback(started[-1].process.wait)
            stack.callback(started[-1].process.kill)
        head, *joining = (f"--node-ip-address={address}" for address in ADDRESSES.values())
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1"]
        stack.callback(subprocess.run, [*ray[:3], "stop", "--force"], capture_output=True)
        started[0].run(*ray, "--head", head, "--port=6379", "--include-dashboard=false")
        started[1].run(*ray, *joining, f"--address={ADDRESSES[first]}:6379")
        yield started


@pytest.fixture
def shared(example_folder: Path) -> Iterator[Path]:
    """A copy of the example at a path that both machines have, unlike /tmp."""
    folder = ROOT / "artifacts" / "test-hosts"
    shutil.copytree(example_folder, folder, dirs_exist_ok=True)
    yield folder
    shutil.rmtree(folder)


def test_one_address_uses_the_replicas_of_all_machines(hosts: list[Host], shared: Path) -> None:
    """With more callers than one replica admits, hardly any is refused, since the other machine has room."""
    head, other = ADDRESSES.values()
    serve = [sys.executable, "-m", "omgm", "serve", "--index", str(shared / "index"), "--replicas", "2"]
    command = hosts[0].words("env", f"RAY_ADDRESS={head}:6379", *serve, "--host", "0.0.0.0", "--port", "8000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None and process.stdout.readline().startswith("Serving ")
            for host, address in zip(hosts, (head, other), strict=True):
                call = ["-c", CALLER, f"http://{address}:8000/answer", str(shared / "photo.jpg"), "8"]
                counts = {(status, answer): n for status, answer, n in json.loads(host.run(sys.executable, *call))}
                assert counts.keys() <= {(200, "Tokyo"), (429, None)}
                # A third would be refused by one machine's replica alone.
                assert counts[200, "Tokyo"] > 0.9 * sum(counts.values()), counts
        finally:
            process.terminate()
