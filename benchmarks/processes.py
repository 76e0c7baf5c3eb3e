"""Starts processes for benchmarks, and measures time and memory from Linux's /proc, of this one and of others."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from omgm.commands.demo import omgm

Address = tuple[str, int]
Running = tuple[subprocess.Popen[bytes], Address]
"""A server's process and address."""


def service(
    profile: str, index: Path, settings: Sequence[str] = (), workers: int | None = None
) -> AbstractContextManager[Running]:
    """Runs `omgm serve`; yields its process and address once it accepts requests.

    Args:
        profile: The name or file of its profile.
        index: The index.
        settings: Overrides of the profile's settings, as `KEY=VALUE`.
        workers: Number of processes that run the models, by default the profile's.

    Raises:
        OSError: It did not start; standard error says why.
    """
    given = [part for value in settings for part in ("--set", value)]
    several = ("--workers", workers) if workers else ()
    return server(*omgm("serve", "--profile", profile, *given, "--index", index, *several))


@contextmanager
def server(*command: str) -> Iterator[Running]:
    """Runs a server that takes `--port` and prints a line once it accepts requests; see `service`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise OSError("the service did not start; standard error says why")
            yield process, ("127.0.0.1", port)
        finally:
            process.terminate()


class Meter:
    """Seconds and peak resident memory of this process by stage, with pages of mapped files."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mb: dict[str, float | None] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Measures a block."""
        peak_memory(os.getpid(), reset=True)
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)
        self.peak_mb[name] = peak_memory(os.getpid())


def folders_of(pid: int) -> list[Path]:
    """Returns the /proc folders of a process and its descendants, such as those of models."""
    folder = Path(f"/proc/{pid}")
    children = [child for path in folder.glob("task/*/children") for child in path.read_text().split()]
    return [folder, *(found for child in children for found in folders_of(int(child)))]


def peak_memory(pid: int, reset: bool = False) -> float | None:
    """Returns the peak memory in MiB of a process and its descendants since the last reset.

    Shared pages count once per process. Returns `None` without Linux's /proc.
    """
    if not Path(f"/proc/{pid}/status").is_file():
        return None
    total = 0
    for folder in folders_of(pid):
        if reset:
            (folder / "clear_refs").write_text("5")
        lines = (folder / "status").read_text().splitlines()
        total += int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    return round(total / 1024, 1)


def cpu_seconds(pid: int) -> dict[str, float] | None:
    """Returns the current time, and CPU times of this client, of a process with its descendants, and of all processes.

    Returns `None` without Linux's /proc.
    """
    if not Path("/proc/stat").is_file():
        return None
    tick = os.sysconf("SC_CLK_TCK")
    stats = [(folder / "stat").read_text().rpartition(")")[2].split() for folder in folders_of(pid)]
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
