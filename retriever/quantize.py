"""Section tokens as int8 with one scale per token: half the size of float16."""

from __future__ import annotations

import torch
from torch import Tensor

_LEVELS = 127
_STEP = 2.0**-24
"""The spacing of float16's subnormal numbers."""


def quantize_tokens(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Quantizes tokens to int8 values [..., M, H] and float16 scales [..., M]; a token is about `values * scale`.

    Quantization is symmetric: the largest magnitude of a token becomes 127 or -127. Values are rounded with the scale
    as stored, so the error of an element is at most half a scale. A token of zeros has scale 0.

    Args:
        tokens: Floating point, [..., M, H].

    Raises:
        ValueError: A value is not finite or exceeds 127 * 65504, the largest that a float16 scale can represent.
    """
    exact = tokens.float()
    largest = exact.abs().amax(dim=-1)
    scales = (largest / _LEVELS).half()
    if not torch.isfinite(scales).all():
        raise ValueError("tokens have values that are not finite or too large for int8 with a float16 scale")
    # A subnormal scale may be rounded down so far that 127 steps do not reach the largest value.
    scales = torch.where(scales.float() * (_LEVELS + 0.5) < largest, (scales.float() + _STEP).half(), scales)
    values = (exact / scales.float().clamp_min(_STEP)[..., None]).round().clamp(-_LEVELS, _LEVELS)
    return values.to(torch.int8), scales


def dequantize(values: Tensor, scales: Tensor) -> Tensor:
    """Returns float32 tokens [..., M, H] from int8 values and their scales [..., M]."""
    return values.float() * scales.float()[..., None]
