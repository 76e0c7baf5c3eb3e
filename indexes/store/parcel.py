"""Several arrays that reach a device in one transfer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

_ALIGNED = 128
"""Each array begins at a multiple of this many bytes, which kernels read fastest."""


class Parcel:
    """Arrays in one buffer of host memory, to be filled and then sent.

    Nothing waits for the transfer to a GPU. The buffer is page-locked and belongs to PyTorch's allocator, which reuses
    it only after the transfer.

    Args:
        contents: Shape and dtype of each array.
        device: Where they are sent.

    Attributes:
        arrays: The arrays, uninitialized.
    """

    def __init__(self, contents: Sequence[tuple[Sequence[int], DTypeLike]], device: torch.device) -> None:
        self._device, self._places = device, list[tuple[slice, torch.dtype, Sequence[int]]]()
        end = 0
        for shape, dtype in contents:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            self._places.append((slice(end, end + size), torch.from_numpy(np.empty(0, dtype)).dtype, shape))
            end = -(-(end + size) // _ALIGNED) * _ALIGNED
        if device.type == "cuda":
            self._buffer = torch.empty(end, dtype=torch.uint8, pin_memory=True)
        else:  # NumPy asks the system for huge pages; filling small ones would take several times as long
            self._buffer = torch.from_numpy(np.empty(max(end, 1), np.uint8))
        whole = self._buffer.numpy()
        kinds = (np.dtype(dtype) for _, dtype in contents)
        self.arrays: list[NDArray[np.generic]] = [
            whole[part].view(kind).reshape(shape) for kind, (part, _, shape) in zip(kinds, self._places, strict=True)
        ]

    def send(self) -> list[Tensor]:
        """Starts the transfer and returns the arrays on the device; on a CPU, they share the memory of `arrays`."""
        sent = self._buffer.to(self._device, non_blocking=self._device.type == "cuda")
        return [sent[part].view(dtype).view(tuple(shape)) for part, dtype, shape in self._places]
