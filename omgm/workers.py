"""Runs several processes of the service on one machine, which share a socket: `omgm serve --workers`.

Models release and reacquire Python's global lock with every operation, so a single process leaves some cores partly
idle under load. Each worker has its own cores, models and admission control.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from omgm.profile import device_of
from omgm.served_app import build_app
from omgm.server import freeze_objects, server_options
from omgm.settings import Profile
from serving.protocol import protocol_of

_START_S = 300.0
"""Timeout in seconds for all workers to load their models."""


class WorkerConfig(uvicorn.Config):
    """The configuration that uvicorn passes to each worker, which builds the service from it.

    Args:
        profile: The profile.
        index: The index's folder.
        workers: Number of workers.
        slots: A folder in which each worker locks a file, so that no two take the same cores.
        host: The address to listen on.
        port: The port to listen on.
        verbose: Whether to print log messages.
    """

    def __init__(
        self, profile: Profile, index: Path, workers: int, slots: Path, host: str, port: int, *, verbose: bool
    ) -> None:
        options = server_options(profile.serving, verbose)
        super().__init__("omgm.workers", workers=workers, host=host, port=port, **options)
        self.profile, self.index, self.slots = profile, index, slots
        self._slot: IO[str] | None = None

    def load(self) -> None:
        """Builds the service; runs in a worker.

        Raises:
            SystemExit: It cannot be built, and retrying would not help; the reason is printed to standard error.
        """
        self._slot = take_slot(self.slots, self.workers)  # before PyTorch counts the cores
        threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
        try:
            app, _ = build_app(self.profile, self.index, read_only=True)
        except (ValueError, OSError) as error:
            print(f"omgm: error: {error}", file=sys.stderr)
            sys.exit(STARTUP_FAILURE)
        freeze_objects()
        self.app = app
        self.http = protocol_of(self.profile.serving, app.state.overload)
        super().load()


class Supervisor(Multiprocess):
    """Starts the workers, replaces those that die, and stops them when this process ends."""

    def __init__(self, config: WorkerConfig, announce: Callable[[], None]) -> None:
        super().__init__(config, [config.bind_socket()])
        self._announce = announce
        self.failed = False

    def init_processes(self) -> None:
        """Starts the workers and waits until they accept requests; stops all of them if one cannot start."""
        super().init_processes()
        ready = all(process.wait_until_ready(_START_S, self.should_exit) for process in self.processes)
        if ready and all(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) for sock in self.sockets):
            self._announce()
            return
        if ready:  # another service has started to listen in the meantime, which uvloop does not report
            where = f"{self.config.host}, port {self.config.port}"
            print(f"omgm: error: cannot listen at {where}: something else listens there", file=sys.stderr)
        self.failed = not self.signal_queue
        self.should_exit.set()

    def handle_hup(self) -> None:
        """Stops the workers, as a single process ends with its terminal; uvicorn would start new ones instead."""
        self.should_exit.set()

    def handle_ttin(self) -> None:
        """Does nothing: the cores are already divided among the workers."""

    handle_ttou = handle_ttin


def run_workers(
    profile: Profile, index: Path, workers: int, host: str, port: int, announce: Callable[[], None], *, verbose: bool
) -> None:
    """Serves an index with several processes until SIGINT or SIGTERM.

    Each gets an equal share of the cores, of `serving.max_batch` and of `serving.cache_mib`.

    Raises:
        ValueError: The profile runs on a GPU, where several processes would not be faster than one.
        SystemExit: A worker cannot start, or the address is in use; the reason is printed to standard error.
    """
    if device_of(profile) != "cpu":
        raise ValueError(
            f"--workers shares the cores of a CPU, but with device = {profile.device!r} the models run on the GPU; "
            "use --replicas, or --set device=cpu"
        )
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(_cores()) // workers)))  # workers inherit it
    serving = profile.serving
    shares = {"max_batch": -(-serving.max_batch // workers), "cache_mib": -(-serving.cache_mib // workers)}
    profile = profile.model_copy(update={"device": "cpu", "serving": serving.model_copy(update=shares)})
    with tempfile.TemporaryDirectory(prefix="omgm-workers-") as slots:
        config = WorkerConfig(profile, index, workers, Path(slots), host, port, verbose=verbose)
        supervisor = Supervisor(config, announce)
        supervisor.run()
    if supervisor.failed:
        sys.exit(STARTUP_FAILURE)


def _end_with_parent() -> None:
    """Stops this process when its parent process ends, for whatever reason."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def take_slot(slots: Path, workers: int) -> IO[str]:
    """Restricts this process to the cores of a free slot, if the system can; returns the slot's locked file.

    The lock is released when the process ends, for whatever reason, so a replacement takes over the cores.
    """
    for number in range(workers):
        file = (slots / str(number)).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        if hasattr(os, "sched_setaffinity"):  # Linux
            os.sched_setaffinity(0, share_of(_cores(), number, workers))
        return file
    raise RuntimeError(f"{slots}: all {workers} slots are taken")


def _cores() -> list[int]:
    """Returns the numbers of the cores available to this process."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def share_of(cores: list[int], number: int, workers: int) -> list[int]:
    """Returns the cores of one worker: an equal share, or one shared core if there are fewer cores than workers."""
    if len(cores) < workers:
        return [cores[number % len(cores)]]
    return cores[number * len(cores) // workers : (number + 1) * len(cores) // workers]
