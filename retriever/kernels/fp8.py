"""Rows rounded to FP8: one function, run by a Triton kernel on a GPU and by PyTorch elsewhere."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

LARGEST = 448.0
"""The largest value of float8_e4m3fn."""
SMALLEST = 2.0**-100
"""The smallest magnitude to which a row is scaled, so that a row of zeros has a finite scale."""


def rounded(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds rows to FP8, each scaled so that its largest magnitude becomes the largest FP8 value.

    Args:
        rows: [N, length], floating point.

    Returns:
        Values float8_e4m3fn [N, length], and float32 [N, 1] with which a row's values must be multiplied. A value that
        is not finite makes at least one product of its row NaN.
    """
    if rows.is_cuda and _has_triton():
        from retriever.kernels import fp8_triton

        return fp8_triton.rounded(rows.contiguous(), LARGEST, SMALLEST)
    return rounded_by_pytorch(rows)


def rounded_by_pytorch(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds rows with PyTorch's operators; see `rounded`."""
    exact = rows.float()
    largest = exact.abs().amax(dim=1, keepdim=True).clamp(min=SMALLEST)
    return (exact * (LARGEST / largest)).to(torch.float8_e4m3fn), largest / LARGEST


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
