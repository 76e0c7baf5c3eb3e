"""Explains a training's lack of memory by the settings that reduce it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DEVICE_IS_FULL = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")  # CUDA, cuBLAS, CPU
_SHARED_IS_FULL = "shared memory"
"""As in "DataLoader worker ... is killed by signal: Bus error. ... out of shared memory"."""


@contextmanager
def naming_memory_settings(advice: str, workers: str = "") -> Iterator[None]:
    """Turns PyTorch's out-of-memory errors in the block into one that says what to do.

    Args:
        advice: The settings to change if the device is full.
        workers: The setting with the number of processes that load data, if there is one.

    Raises:
        MemoryError: The device is full, or `/dev/shm`, through which data loaders' processes pass batches.
    """
    try:
        yield
    except RuntimeError as error:
        message = str(error)
        if _SHARED_IS_FULL in message:
            raise MemoryError(
                "the processes that load data ran out of shared memory: start the container with --shm-size 8g or "
                f"--ipc host{f', or use fewer {workers}' if workers else ''}"
            ) from error
        if isinstance(error, torch.OutOfMemoryError) or any(sign in message for sign in _DEVICE_IS_FULL):
            raise MemoryError(f"out of memory: {advice}") from error
        raise
