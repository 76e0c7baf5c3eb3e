"""Rows rounded to FP8 in one pass: PyTorch's own operators would read and write them several times.

A program holds a row in registers, finds its largest magnitude, and stores the scaled values and the scale.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def _round_rows(
    rows: tl.tensor,
    values: tl.tensor,
    scales: tl.tensor,
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
    LARGEST: tl.constexpr,
    SMALLEST: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < LENGTH
    exact = tl.load(rows + row * LENGTH + column, mask=inside, other=0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(exact), axis=0), SMALLEST)
    scaled = exact * tl.div_rn(LARGEST, largest)
    tl.store(values + row * LENGTH + column, scaled.to(tl.float8e4nv), mask=inside)
    tl.store(scales + row, tl.div_rn(largest, LARGEST))


kernel = triton.jit(_round_rows)


def rounded(rows: Tensor, largest: float, smallest: float) -> tuple[Tensor, Tensor]:
    """Rounds contiguous rows to FP8; see `retriever.kernels.fp8`."""
    count, length = rows.shape
    values = torch.empty_like(rows, dtype=torch.float8_e4m3fn)
    scales = rows.new_empty((count, 1), dtype=torch.float32)
    if count:
        with torch.cuda.device_of(rows):
            kernel[(count,)](rows, values, scales, **blocks(length, largest, smallest), num_warps=warps(length))
    return values, scales


def blocks(length: int, largest: float, smallest: float) -> dict[str, float]:
    """Returns the kernel's constants for rows of a length."""
    return {"LENGTH": length, "BLOCK": triton.next_power_of_2(length), "LARGEST": largest, "SMALLEST": smallest}


def warps(length: int) -> int:
    """Returns the number of warps that a row is shared by: 16 values per thread, and more in very long rows."""
    return min(16, max(1, int(triton.next_power_of_2(length)) // 512))
