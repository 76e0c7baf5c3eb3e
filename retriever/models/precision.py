"""The default dtype that models run in."""

from __future__ import annotations

import torch


def fastest_dtype(device: str) -> torch.dtype:
    """Returns bfloat16 on a GPU and on a CPU that multiplies it in hardware (AMX, AVX512-BF16), else float32.

    Other CPUs convert every bfloat16 value before multiplying, which is slower than float32.
    """
    if device != "cpu":
        return torch.bfloat16
    found = torch.cpu.get_capabilities()
    multiplied = found.get("amx_bf16", False) or found.get("avx512_bf16", False)
    return torch.bfloat16 if multiplied else torch.float32
