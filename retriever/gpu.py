"""How a process uses a GPU: settings for several threads, and copies for which the host does not wait."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

SWITCH_INTERVAL = 1e-4
"""Seconds after which a thread that computes in Python lets another one run."""


def prepare_gpu() -> None:
    """Sets up this process for threads that launch kernels.

    A launch gives up Python's lock, and a thread that computes in Python keeps it for 5 ms by default: on the host of
    an H200, a launch took 12 us alone, 17 ms beside such a thread, and 0.2 ms with `SWITCH_INTERVAL`.

    cuDNN's attention plans its work anew in every thread and for every batch size, which took 65 ms each; the gain of
    its kernels over FlashAttention's is 2 ms in a batch of 16 queries.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL))
    torch.backends.cuda.enable_cudnn_sdp(False)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device, without waiting for what a GPU is still computing.

    A GPU copies pageable memory only after the work that is queued before it, while the host waits; it copies pinned
    memory on its own. A tensor that is on the device already is returned itself.

    Args:
        tensor: On the CPU or on `device`; it may be changed or freed at once.
        device: The device.
    """
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
