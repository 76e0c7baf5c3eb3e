"""Starts processes for benchmarks, and measures time and memory from Linux's /proc, of this one and of others."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omgm.commands.demo import omgm

Address = tuple[str, int]


@contextmanager
def service(
    profile: str, index: Path, settings: Sequence[str] = (), workers: int = 2
) -> Iterator[tuple[subprocess.Popen[bytes], Address]]:
    """Starts a service on a free port; yields its process and address once it accepts requests.

    Args:
        profile: The name or file of its profile.
        index: The index.
        settings: Overrides of the profile's settings, as `KEY=VALUE`.
        workers: Number of worker processes.

    Raises:
        OSError: It did not start; standard error says why.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = [part for value in settings for part in ("--set", value)]
    command = omgm("serve", "--profile", profile, *given, "--index", index, "--port", port, "--workers", workers)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        if not process.stdout.readline():  # printed once all workers accept requests
            raise OSError("the service did not start; standard error says why")
        yield process, ("127.0.0.1", port)
    finally:
        process.terminate()
        process.wait(timeout=60)


class Answerer:
    """A process that runs `answer_lines`.

    Raises:
        OSError: It did not start; standard error says why.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        if self._answers.readline() != "ready\n":
            self.close()
            raise OSError(f"{' '.join(command)} did not start; standard error says why")

    def ask(self, question: Any) -> Any:
        """Returns the answer to a question."""
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()
        return json.loads(self._answers.readline())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def answer_lines(answer: Callable[[Any], Any]) -> None:
    """Prints a line when ready, then answers each line of standard input with a line on standard output."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


class Meter:
    """Seconds and peak memory by stage: total resident, and without pages of mapped files."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mb: dict[str, float] = {}
        self.peak_anon_mb: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Measures a block; blocks with the same name add up."""
        forget_peak()
        started = time.perf_counter()
        with anonymous_peak() as anonymous:
            yield
        self.seconds[name] = round(self.seconds.get(name, 0) + time.perf_counter() - started, 2)
        self.peak_mb[name] = max(self.peak_mb.get(name, 0), peak_mb())
        self.peak_anon_mb[name] = max(self.peak_anon_mb.get(name, 0), *anonymous)


def forget_peak() -> None:
    """Resets this process's peak memory to its current value; no effect where the system does not support it."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def peak_mb() -> float:
    """Returns the peak resident memory in MB since `forget_peak`, or since the start if resetting is not supported."""
    status = Path("/proc/self/status")
    if status.exists():
        return round(int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@contextmanager
def anonymous_peak() -> Generator[list[float]]:
    """Yields a list that holds the peak of `anonymous_mb` within the block, sampled by a thread every 10 ms."""
    peak, done = [anonymous_mb()], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak[0] = max(peak[0], anonymous_mb())


def anonymous_mb() -> float:
    """Returns the resident memory not backed by a file, in MB; 0 where the system does not report it."""
    status = Path("/proc/self/status")
    return round(int(status.read_text().split("RssAnon:")[1].split()[0]) / 1024) if status.exists() else 0


def folders_of(process: subprocess.Popen[bytes]) -> list[Path]:
    """Returns the /proc folders of a process and its descendants, such as the reader's."""
    folder = Path(f"/proc/{process.pid}")
    started = [path.read_text().split() for path in folder.glob("task/*/children")]
    return [folder, *(Path(f"/proc/{pid}") for pids in started for pid in pids)]


def peak_memory(process: subprocess.Popen[bytes], reset: bool = False) -> float | None:
    """Returns the peak memory in MiB of a process and its descendants since the last reset.

    Shared pages count once per process. Returns `None` without Linux's /proc.
    """
    if not Path(f"/proc/{process.pid}/status").is_file():
        return None
    total = 0
    for folder in folders_of(process):
        if reset:
            (folder / "clear_refs").write_text("5")
        lines = (folder / "status").read_text().splitlines()
        total += int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    return round(total / 1024, 1)


def cpu_seconds(process: subprocess.Popen[bytes]) -> dict[str, float] | None:
    """Returns the current time, and CPU times of this client, of a process with its descendants, and of all processes.

    Returns `None` without Linux's /proc.
    """
    if not Path("/proc/stat").is_file():
        return None
    tick = os.sysconf("SC_CLK_TCK")
    stats = [(folder / "stat").read_text().rpartition(")")[2].split() for folder in folders_of(process)]
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().splitlines()[0].split()[1:8]
    return {
        "wall": time.perf_counter(),
        "client": time.process_time(),
        "server": sum(int(fields[11]) + int(fields[12]) for fields in stats) / tick,  # `fields` starts at field 3
        "all": sum(int(ticks) for ticks in (user, nice, system, *interrupts)) / tick,
    }


def cores_between(before: dict[str, float] | None, after: dict[str, float] | None) -> dict[str, float | None]:
    """Returns the numbers of cores that client, service and others used between two readings of `cpu_seconds`."""
    if before is None or after is None:
        return dict.fromkeys(("client_cpu", "server_cpu", "foreign_cpu"))
    wall, client, server, everybody = (after[name] - before[name] for name in ("wall", "client", "server", "all"))
    cores = {"client_cpu": client, "server_cpu": server, "foreign_cpu": max(everybody - client - server, 0.0)}
    return {name: round(seconds / wall, 3) for name, seconds in cores.items()}
