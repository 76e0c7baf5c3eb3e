"""Runs parts of a pipeline side by side (CUDA streams on a GPU, threads on a CPU), and batches one behind the other."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import torch

ResultT = TypeVar("ResultT")


def own_stream(device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    """Creates a CUDA stream and returns a factory of contexts that enter it; on a CPU, the contexts do nothing.

    A step starts and finishes in its own stream and returns candidates as Python objects, which synchronizes with that
    stream alone. No tensor crosses from one stream to another.

    Args:
        device: Where the models are. Only for a GPU is CUDA asked anything, since each process that uses it takes
            memory of the GPU.
    """
    if not _has_streams(device):
        return nullcontext
    torch.cuda.synchronize(device)  # weights and stores must be complete before a stream reads them
    return partial(torch.cuda.stream, torch.cuda.Stream(device))


@contextmanager
def nothing_left_behind(device: torch.device) -> Iterator[None]:
    """If the block fails on a GPU, waits until all work that it began there is done.

    Usually a step waits for its stream when it finishes. A step that has started and never finishes has not, and its
    model would still compute when other code runs the model in another stream; CUDA graphs would then share memory.
    """
    try:
        yield
    except BaseException:
        if _has_streams(device):
            torch.cuda.synchronize(device)
        raise


def free_threads() -> int:
    """Returns how many threads may run models on the CPU at once: 1 if PyTorch's own threads use all cores."""
    return max(1, _cores() // torch.get_num_threads())


@contextmanager
def side_by_side(calls: Sequence[Callable[[], ResultT]], threads: int) -> Iterator[list[Callable[[], ResultT]]]:
    """Yields a function for each call that returns its result; call each once and in order.

    With several threads, all calls but the first run in other threads, in copies of this context (`contextvars`). If no
    thread has started a call when its result is requested, the call runs in the requesting thread; otherwise threads
    that wait for each other's calls could deadlock. With one thread, each call runs when its result is requested: a GPU
    has streams for concurrency, and with PyTorch's own threads on all cores, more threads would only compete.

    At the end of the block, calls that have not started are dropped, and running ones are waited for.

    Args:
        calls: The functions to run.
        threads: How many threads the calls may use, see `free_threads`.
    """
    if len(calls) < 2 or threads < 2:
        yield list(calls)
        return
    tasks = [partial(copy_context().run, call) for call in calls[1:]]
    futures = [_threads().submit(task) for task in tasks]
    try:
        yield [calls[0], *(partial(_result, future, task) for future, task in zip(futures, tasks, strict=True))]
    finally:
        wait([future for future in futures if not future.cancel()])


def _has_streams(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def _result(future: Future[ResultT], task: Callable[[], ResultT]) -> ResultT:
    return task() if future.cancel() else future.result()


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), "steps")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child process does not inherit threads


class Turns:
    """As many batches as there are parts can be on their way at once; they leave in the order in which they entered.

    As a context manager, holds all parts: no batch is on its way in the meantime. Thread-safe, but not reentrant.

    Args:
        parts: The number of parts.
    """

    def __init__(self, parts: int) -> None:
        self._parts = [threading.Lock() for _ in range(parts)]

    def __len__(self) -> int:
        """Returns the number of parts."""
        return len(self._parts)

    @contextmanager
    def batch(self) -> Iterator[Callable[[], None]]:
        """Holds the first part until the end of the block; the function that it yields moves on to the next part.

        A batch leaves a part only when it has the next one, so that none is overtaken.
        """
        with ExitStack() as held:
            parts = iter(self._parts)
            held.enter_context(next(parts))

            def move_on() -> None:
                with held.pop_all():
                    held.enter_context(next(parts))

            yield move_on

    def settle(self) -> None:
        """Waits until no batch is ahead; for a batch in the first part."""
        for part in self._parts[1:]:
            with part:
                pass

    def __enter__(self) -> None:
        """Waits until no batch is on its way, and lets none enter."""
        with ExitStack() as held:
            for part in self._parts:
                held.enter_context(part)
            held.pop_all()

    def __exit__(self, *_: object) -> None:
        """Lets batches enter."""
        for part in self._parts:
            part.release()
