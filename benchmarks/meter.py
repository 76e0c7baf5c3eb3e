"""Measures time and memory of this process by stage, from Linux's /proc."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Returns `function` wrapped so that every call is measured."""

        def measured(*args: Any, **options: Any) -> Any:
            with self.stage(name):
                return function(*args, **options)

        return measured


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
