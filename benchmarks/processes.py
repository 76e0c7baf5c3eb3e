"""Reads memory and CPU time of other processes from Linux's /proc."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path


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
