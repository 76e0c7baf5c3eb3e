"""Whether the tokens of an index are kept on a GPU."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch

from retriever.wording import gigabytes


class Residency(NamedTuple):
    """Where tokens are and why; as text, a message for people.

    Attributes:
        needed: Bytes that the tokens take.
        free: Bytes of GPU memory that this process can allocate; `None` if the device is a CPU.
    """

    needed: int
    free: int | None = None

    @classmethod
    def on(cls, device: torch.device, needed: int) -> Self:
        """Returns the residency of tokens on a device as it is now."""
        if device.type != "cuda":
            return cls(needed)
        free = torch.cuda.mem_get_info(device)[0]
        return cls.of(needed, free, torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device))

    @classmethod
    def of(cls, needed: int, free: int, reserved: int, allocated: int) -> Self:
        """Returns the residency on a GPU by numbers of bytes.

        Args:
            needed: What the tokens take.
            free: What no process holds, by the driver.
            reserved: What PyTorch holds in this process.
            allocated: What tensors occupy of that; PyTorch reuses the rest.
        """
        return cls(needed, free + reserved - allocated)

    @property
    def on_gpu(self) -> bool:
        """Whether the tokens are kept on the GPU: they take at most half of the free memory; batches need some, too."""
        return self.free is not None and self.needed <= self.free // 2

    def __str__(self) -> str:
        """Returns a message like "tokens take 490.0 GB, half of the free GPU memory is 8.5 GB: read from disk …"."""
        half = "" if self.free is None else f", half of the free GPU memory is {gigabytes(self.free // 2)}"
        place = "kept on the GPU" if self.on_gpu else "read from disk for each batch"
        return f"tokens take {gigabytes(self.needed)}{half}: {place}"
