"""Section tokens as int8 with one scale a token: half the bytes of float16."""

from __future__ import annotations

import torch
from torch import Tensor

_LEVELS = 127
_STEP = 2.0**-24
"""How far apart float16's smallest numbers are."""


def quantize_tokens(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Returns int8 values [..., M, H] and float16 scales [..., M]; a token is about `values * scale`.

    Symmetric: the largest of a token's values becomes 127 or -127. Values are rounded against the scale as it is
    stored, so each element is off by half a scale at most. A token of zeros has scale 0.

    Args:
        tokens: Floating point, [..., M, H].

    Raises:
        ValueError: A value is not finite, or too large for a float16 scale (127 * 65504).
    """
    exact = tokens.float()
    largest = exact.abs().amax(dim=-1)
    scales = (largest / _LEVELS).half()
    if not torch.isfinite(scales).all():
        raise ValueError("tokens hold values that are not finite or too large for int8 with a float16 scale")
    # Below float16's normal numbers a scale may round down by so much that 127 steps do not reach the largest value.
    scales = torch.where(scales.float() * (_LEVELS + 0.5) < largest, (scales.float() + _STEP).half(), scales)
    values = (exact / scales.float().clamp_min(_STEP)[..., None]).round().clamp(-_LEVELS, _LEVELS)
    return values.to(torch.int8), scales


def dequantize(values: Tensor, scales: Tensor) -> Tensor:
    """Returns tokens float32 [..., M, H] of int8 values and their scales [..., M]."""
    return values.float() * scales.float()[..., None]
