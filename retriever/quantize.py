"""Section tokens as int8 with one scale a token: half the bytes of float16."""

from __future__ import annotations

import torch
from torch import Tensor


def quantize_tokens(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Returns int8 values [..., M, H] and float16 scales [..., M]; a token is about `values * scale`."""
    scales = (tokens.abs().amax(-1) / 127).half()
    divisor = scales.float().clamp_min(torch.finfo(torch.float16).tiny)[..., None]
    return (tokens / divisor).round().clamp(-127, 127).to(torch.int8), scales


def dequantize(values: Tensor, scales: Tensor) -> Tensor:
    """Returns tokens float32 [..., M, H] of int8 values and their scales [..., M]."""
    return values.float() * scales.float()[..., None]
