"""The precision that models run in: the default dtype, and linear layers in int8 and by oneDNN on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor


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


def onednn_computes(device: str, dtype: torch.dtype) -> bool:
    """Tells whether oneDNN supports this dtype on this device, with the operations that PyTorch's compiler uses."""
    if torch.device(device).type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Int8Linear:
    """A linear layer with weights in int8, a scale per output, and inputs rounded to int8 with a scale per row.

    PyTorch's own quantized layers, which round all rows with one scale, are as fast but five times less exact on a
    language model, and deprecated.

    Args:
        weight: Weight of the layer, [out, in].
        bias: Its bias, [out].
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        weight = weight.detach().float()
        self._scale = weight.abs().amax(1).clamp_min(1e-12) / 127
        self._weight = (weight / self._scale[:, None]).round().to(torch.int8).t().contiguous()
        self._bias = bias.detach().float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Returns float32 [..., out] for float32 [..., in]."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        scales = rows.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
        products = torch._int_mm((rows / scales).round_().to(torch.int8), self._weight)
        scaled = torch.addcmul(self._bias, products.float().mul_(scales), self._scale)
        return scaled.reshape(*inputs.shape[:-1], len(self._scale))
