"""Settings of the process for threads that launch kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from retriever.gpu import SWITCH_INTERVAL, prepare_gpu, to_device


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    interval, cudnn = sys.getswitchinterval(), torch.backends.cuda.cudnn_sdp_enabled()
    yield
    sys.setswitchinterval(interval)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)


@pytest.mark.parametrize(("before", "after"), [(5e-3, SWITCH_INTERVAL), (1e-5, 1e-5)])
def test_threads_take_turns(before: float, after: float) -> None:
    sys.setswitchinterval(before)
    torch.backends.cuda.enable_cudnn_sdp(True)
    prepare_gpu()
    assert sys.getswitchinterval() == pytest.approx(after)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_on_a_cpu_it_is_the_tensor_itself() -> None:
    tensor = torch.arange(3)
    assert to_device(tensor, torch.device("cpu")) is tensor
    assert to_device(tensor, torch.device("meta")).is_meta


class Recorded:
    """A fake tensor that records how it is copied."""

    def __init__(self, is_cuda: bool) -> None:
        self.is_cuda, self.pinned = is_cuda, False

    def pin_memory(self) -> Recorded:
        assert not self.is_cuda, "only dense CPU tensors can be pinned"
        self.pinned = True
        return self

    def to(self, device: torch.device, non_blocking: bool = False) -> tuple[str, bool, bool]:
        return device.type, self.pinned, non_blocking


@pytest.mark.parametrize(
    ("is_cuda", "device", "expected"),
    [
        (False, "cuda", ("cuda", True, True)),
        (True, "cuda", ("cuda", False, False)),  # is there already: neither pinned nor copied
        (True, "cpu", ("cpu", False, False)),  # must be complete, because the host may read it at once
        (False, "mps", ("mps", False, False)),
    ],
)
def test_only_copies_to_a_gpu_are_pinned_and_not_waited_for(is_cuda: bool, device: str, expected: object) -> None:
    tensor: Any = Recorded(is_cuda)
    assert to_device(tensor, torch.device(device)) == expected
