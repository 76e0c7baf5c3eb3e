"""`omgm serve --workers`: several processes behind one port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
from uvicorn.config import STARTUP_FAILURE

from omgm.__main__ import main
from omgm.profile import load_profile
from omgm.served_app import READ_ONLY
from omgm.settings import Profile
from omgm.workers import Supervisor, WorkerConfig, run_workers, share_of, take_slot
from tests.fakes.listening import free_port
from tests.fakes.service import wait_until
from tests.paths import ROOT

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc, which only Linux has")


@contextmanager
def serving(index: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "omgm", "serve", "--index", str(index), "--port", str(port), "--workers", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            assert service.stdout.readline().endswith("with 2 workers (Ctrl-C stops it)\n")
            yield service
        finally:
            service.terminate()


def workers_of(process: int) -> set[int]:
    """Returns the process ids of the workers that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    found = set[int]()
    for child in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(int(child))
    return found


@linux
def test_workers_share_a_port_and_one_that_dies_is_replaced(example_folder: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    photograph = next((example_folder / "queries").glob("*.jpg"))

    def ask(_: int) -> int:
        files = {"image": photograph.read_bytes()}
        asked = {"question": "What is the capital of this country?"}
        return httpx.post(f"{address}/answer", files=files, data=asked, timeout=60).status_code

    with serving(example_folder / "index", port) as service, ThreadPoolExecutor(4) as threads:
        first = workers_of(service.pid)
        assert len(first) == 2
        cores = sorted(os.sched_getaffinity(0))
        taken = [os.sched_getaffinity(worker) for worker in first]
        assert set.union(*taken) <= set(cores) and (len(cores) < 2 or not set.intersection(*taken))
        assert set(threads.map(ask, range(8))) == {200}
        refused = httpx.delete(f"{address}/entities/nobody")
        assert refused.status_code == 409 and READ_ONLY in refused.json()["error"]["message"]
        os.kill(min(first), signal.SIGKILL)
        assert set(threads.map(ask, range(4))) == {200}  # answered by the other one
        wait_until(lambda: len(workers_of(service.pid) - {min(first)}) == 2)
    assert service.returncode == 0


def test_a_worker_that_cannot_start_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("omgm.workers.take_slot", lambda slots, workers: None)
    config = WorkerConfig(load_profile("embedded"), tmp_path, 2, tmp_path, "127.0.0.1", 8000, verbose=False)
    with pytest.raises(SystemExit) as ended:
        config.load()
    assert ended.value.code == STARTUP_FAILURE  # at which uvicorn's supervisor stops all
    assert capsys.readouterr().err.startswith(f"omgm: error: {tmp_path}: no manifest.json")


def test_workers_that_do_not_listen_are_not_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two services that start at the same time can both bind a port, but only the first listens."""
    monkeypatch.setattr("uvicorn.supervisors.Multiprocess.init_processes", lambda supervisor: None)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    port, announced = free_port(), list[int]()
    config = WorkerConfig(load_profile("embedded"), tmp_path, 2, tmp_path, "127.0.0.1", port, verbose=False)
    first, second = (Supervisor(config, lambda: announced.append(1)) for _ in range(2))
    first.sockets[0].listen()
    for supervisor in (first, second):
        supervisor.init_processes()
        supervisor.sockets[0].close()
    assert announced == [1] and not first.failed and second.failed and second.should_exit.is_set()
    assert capsys.readouterr().err == (
        f"omgm: error: cannot listen at 127.0.0.1, port {port}: something else listens there\n"
    )


def test_signals_that_uvicorn_takes_for_other_numbers_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    config = WorkerConfig(load_profile("embedded"), tmp_path, 2, tmp_path, "127.0.0.1", free_port(), verbose=False)
    supervisor = Supervisor(config, lambda: None)
    supervisor.sockets[0].close()
    supervisor.signal_queue += [signal.SIGTTIN, signal.SIGTTOU]
    supervisor.handle_signals()
    assert supervisor.processes == [] and supervisor.processes_num == 2 and not supervisor.should_exit.is_set()
    supervisor.signal_queue.append(signal.SIGHUP)
    supervisor.handle_signals()
    assert supervisor.processes == [] and supervisor.should_exit.is_set()


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_workers_are_for_a_cpu(
    device: str, example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    command = ["serve", "--index", str(example_folder / "index"), "--workers", "2", "--set", f"device={device}"]
    assert main([*command, "--port", str(free_port())]) == 2
    told = capsys.readouterr().err
    assert f"--workers shares the cores of a CPU, but with device = '{device}' the models run on the GPU" in told
    assert "use --replicas, or --set device=cpu" in told


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_workers_run_on_the_cpu(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told so, and with device = "cpu" nothing asks for a GPU."""
    profiles = list[Profile]()

    def supervisor(config: WorkerConfig, announce: object) -> Any:
        profiles.append(config.profile)
        return SimpleNamespace(run=lambda: None, failed=False)

    asked = list[str]()

    def no_gpu() -> bool:
        asked.append(device)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", no_gpu)
    monkeypatch.setattr("omgm.workers.Supervisor", supervisor)
    profile = load_profile("embedded", [f"device={device}"])
    run_workers(profile, tmp_path, 2, "127.0.0.1", free_port(), lambda: None, verbose=False)
    assert [one.device for one in profiles] == ["cpu"] and asked == ["auto"] * (device == "auto")


def test_shares_of_the_cores() -> None:
    assert [share_of([0, 1, 2, 3, 4], number, 2) for number in range(2)] == [[0, 1], [2, 3, 4]]
    assert [share_of([3, 7], number, 2) for number in range(2)] == [[3], [7]]
    assert [share_of([3, 7], number, 3) for number in range(3)] == [[3], [7], [3]]


def test_a_slot_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[set[int]]()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {4, 5}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: taken.append(set(cores)), raising=False)
    first, second = take_slot(tmp_path, 2), take_slot(tmp_path, 2)
    with pytest.raises(RuntimeError, match="all 2 slots are taken"):
        take_slot(tmp_path, 2)
    first.close()  # as when its process ends
    again = take_slot(tmp_path, 2)
    assert taken == [{4}, {5}, {4}]
    second.close()
    again.close()
