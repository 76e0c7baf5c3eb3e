"""Copies to a device for which the host does not wait."""

from __future__ import annotations

import torch
from torch import Tensor


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
