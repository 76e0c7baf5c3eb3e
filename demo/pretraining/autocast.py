"""The precision of the pretraining."""

from __future__ import annotations

import torch


def bfloat16_if_faster() -> torch.autocast:
    """Returns a context that computes in bfloat16 on CPUs with AMX, and in float32 on others.

    AVX512-BF16 alone multiplies no faster than float32 on Intel's CPUs, and conversions cost time.
    """
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=torch.cpu.get_capabilities().get("amx_bf16", False))
