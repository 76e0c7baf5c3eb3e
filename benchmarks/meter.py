"""Seconds and memory of this process by stage, read from Linux's /proc."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Meter:
    """Seconds and peak memory by stage: resident, and without the pages of mapped files."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mb: dict[str, float] = {}
        self.peak_anon_mb: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Measures a block; another one of the same name adds to it."""
        forget_peak()
        started = time.perf_counter()
        with anonymous_peak() as anonymous:
            yield
        self.seconds[name] = round(self.seconds.get(name, 0) + time.perf_counter() - started, 2)
        self.peak_mb[name] = max(self.peak_mb.get(name, 0), peak_mb())
        self.peak_anon_mb[name] = max(self.peak_anon_mb.get(name, 0), *anonymous)

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Returns a function that is measured whenever it is called."""

        def measured(*args: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*args, **options)

        return measured


def forget_peak() -> None:
    """Makes the peak memory of this process what it has now; without effect where the system cannot."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def peak_mb() -> float:
    """Returns the peak resident memory since `forget_peak`, in MB; where the system cannot, since the start."""
    status = Path("/proc/self/status")
    if status.exists():
        return round(int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


@contextmanager
def anonymous_peak() -> Generator[list[float]]:
    """Yields a list that holds the peak of `anonymous_mb` in a block, which a thread reads every 10 ms."""
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
    """Returns the resident memory that is no page of a file, in MB; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    return round(int(status.read_text().split("RssAnon:")[1].split()[0]) / 1024) if status.exists() else 0
