"""Runs Python in separate processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.paths import ROOT


def run_python(
    *arguments: object, environment: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs Python with arguments such as `-m omgm` in the repository; returns its exit status and output."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=check)


def kill_omgm_when(reached: Callable[[], bool], arguments: Sequence[str]) -> None:
    """Starts `omgm` in a separate process and really kills it once a condition holds; it must not end before that."""
    with subprocess.Popen(
        [sys.executable, "-m", "omgm", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not reached():
            time.sleep(0.005)
        assert process.poll() is None, process.stderr and process.stderr.read()
        process.send_signal(signal.SIGKILL)


def run_in_two(target: Callable[..., None], *arguments: object) -> None:
    """Calls a function in two processes, started as by torchrun; neither may fail.

    A server forks them once it has imported the function's module, which takes longer than many a training.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([target.__module__])
    processes = [context.Process(target=_run_as, args=(rank, port, target, arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0


def _run_as(rank: int, port: int, target: Callable[..., None], arguments: Sequence[object]) -> None:
    """Calls a function with the environment that torchrun sets."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"}
    target(*arguments)
