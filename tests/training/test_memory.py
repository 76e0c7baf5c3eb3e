"""Errors of memory that say what to change."""

from __future__ import annotations

import pytest
import torch

from training.memory import naming_memory_settings

BUS_ERROR = (
    "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
    "shared memory. Please try to raise your shared memory limit."
)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "out of memory: use less"),
        (RuntimeError("CUDA error: out of memory"), "out of memory: use less"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "use less"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"), "use less"),
        (RuntimeError(BUS_ERROR), "shared memory: start the container with --shm-size 8g or --ipc host"),
    ],
)
def test_a_lack_of_memory_is_explained(error: RuntimeError, message: str) -> None:
    with pytest.raises(MemoryError, match=message) as raised, naming_memory_settings("use less"):
        raise error
    assert raised.value.__cause__ is error


def test_other_errors_stay_as_they_are() -> None:
    for error in (RuntimeError("shapes differ"), ValueError("out of memory"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, naming_memory_settings("use less"):
            raise error
        assert raised.value is error
