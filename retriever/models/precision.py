"""The dtype that models run in unless a profile says otherwise."""

from __future__ import annotations

import torch


def fastest_dtype(device: str) -> torch.dtype:
    """Returns bfloat16 on a GPU and on a CPU that multiplies it in hardware (Intel AMX), float32 on any other CPU.

    Without AMX, a CPU converts every bfloat16 value before it multiplies, and is slower than with float32.
    """
    fast = device != "cpu" or torch.cpu.get_capabilities().get("amx_bf16", False)
    return torch.bfloat16 if fast else torch.float32
