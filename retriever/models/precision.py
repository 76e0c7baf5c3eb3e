"""The default dtype that models run in."""

from __future__ import annotations

import torch


def fastest_dtype(device: str) -> torch.dtype:
    """Returns bfloat16 on a GPU and on a CPU that gains from it (AMX, AVX512-BF16 of AMD), else float32.

    Intel's CPUs without AMX take 1.3 to 1.6 times as long in bfloat16 even if they have AVX512-BF16, and CPUs without
    either convert every value before multiplying.
    """
    if device != "cpu":
        return torch.bfloat16
    found = torch.cpu.get_capabilities()
    if found.get("amx_bf16", False):
        return torch.bfloat16
    gains = found.get("avx512_bf16", False) and "Intel" not in found.get("cpu_name", "")
    return torch.bfloat16 if gains else torch.float32


def int8_is_fast() -> bool:
    """Returns whether this CPU multiplies int8 matrices in hardware (AVX512-VNNI, AMX).

    On others, `torch._int_mm` takes 57 times as long as float32 (measured on an EPYC with AVX2).
    """
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_vnni", "amx_int8"))


def autocast(device: str, dtype: torch.dtype) -> torch.autocast:
    """Returns a context whose matrix products are in `dtype`; float32 changes nothing."""
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)
