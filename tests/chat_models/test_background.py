"""The event loop in its own thread."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from chat_models.background import BackgroundLoop
from chat_models.chat import ChatClient
from tests.fakes.raw_server import RawServer, events, piece


async def double(number: int) -> int:
    return 2 * number


def test_closing_cancels_what_is_running() -> None:
    loop, closed = BackgroundLoop(), list[str]()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("connection")

    assert loop.submit(double(2)).result(20) == 4
    waiting = loop.submit(wait())
    loop.close()
    with pytest.raises(CancelledError):
        waiting.result(20)  # would never return if it were not canceled
    assert closed == ["connection"]


def test_a_closed_loop_starts_again() -> None:
    loop = BackgroundLoop()
    loop.close()  # nothing to close yet
    for number in (1, 2):
        assert loop.submit(double(number)).result(20) == 2 * number
        loop.close()


def test_a_forked_process_has_a_loop_of_its_own() -> None:
    loop = BackgroundLoop()
    assert loop.submit(double(2)).result(20) == 4
    with loop._lock:  # as another thread may hold it at that moment
        answer = in_fork(lambda: loop.submit(double(21)).result(20))
    assert answer == "42"
    assert loop.submit(double(3)).result(20) == 6
    loop.close()


def test_a_forked_process_has_connections_of_its_own() -> None:
    loop = BackgroundLoop()
    with RawServer(lambda *_: [events(piece("Paris", "stop"))]) as server:
        client = ChatClient(server.url, "m")

        def ask() -> str:
            return loop.submit(client.converse([{"role": "user", "content": "?"}], 1)).result(20).text

        assert (ask(), in_fork(ask), ask()) == ("Paris", "Paris", "Paris")
        loop.submit(client.aclose()).result(20)
    loop.close()


def in_fork(work: Callable[[], object]) -> str:
    """Runs `work` in a forked process; returns its result as text, or how the process ended."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads
        child = os.fork()
    if child == 0:
        try:
            os.write(write, str(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], 30)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        return file.read() if ready else "hangs"


def test_a_dropped_loop_leaves_no_thread_and_no_descriptor() -> None:
    async def work() -> None:
        await asyncio.to_thread(sum, [1])

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    def running() -> set[threading.Thread]:
        return {*threading.enumerate()} - others

    gc.collect()
    others: set[threading.Thread] = {*threading.enumerate()}  # some of other tests may end at any time
    before = opened() if sys.platform == "linux" else 0
    loop: BackgroundLoop | None = BackgroundLoop()
    assert loop is not None
    loop.submit(work()).result(20)
    assert running()
    loop = None
    gc.collect()
    for _ in range(500):
        if not running():
            break
        time.sleep(0.01)
    assert not running()
    assert sys.platform != "linux" or opened() <= before


def test_a_loop_that_is_dropped_as_python_ends_says_nothing() -> None:
    script = """
import asyncio, atexit
from chat_models.background import BackgroundLoop
loops = [BackgroundLoop()]
loops[0].submit(asyncio.to_thread(sum, [1])).result(20)
atexit.register(loops.clear)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
