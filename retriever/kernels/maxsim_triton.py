"""Late interaction as one Triton kernel: section scores in a single pass over the store.

A section of the paper profile (32 tokens of 768) is 24 KiB as int8 and 48 KiB in 16 bits, and takes 2 * 32 * 32 * 768 =
1.6 MFLOP: 64 and 32 operations per byte, where an H100 could do 295 (990 TFLOP/s by its data sheet over 3.35 TB/s). The
kernel is therefore bound by memory bandwidth, and its design reads each stored byte exactly once.

- A program handles `tile` sections of one pair: their rows are adjacent, and the query's 48 KiB, which come from the L2
  cache, are read once for all of them. With one section per program, the query would be twice as many bytes as the
  section.
- The grid is pairs x tiles of the longest pair; a program without sections exits after one load. One program per pair,
  looping over its sections, would leave processors idle (20 programs at batch 1, for 132 processors), and one with 60
  sections would finish long after those with 5. Pairs are the fast axis: programs with work start before those without.
- Products are float16 with float32 sums: int8 values are exact in float16, and normalized bfloat16 tokens lose at most
  2^-25. A scale multiplies the N products of its token instead of its H values. float32 stores are multiplied in
  float32 ("ieee": no TF32).
- Nothing is tuned at run time and nothing synchronizes with the host: a launch can be captured in a CUDA graph.

Scores do not depend on the rest of the batch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4
"""Sections per program: 4 * 32 tokens are two full operands of the matrix unit; the query adds 12 KiB per section."""
_LINE = 128
"""Bytes of each token that an iteration of the loop reads: a cache line."""
WARPS, STAGES = 4, 3


def _max_sim(
    queries: tl.tensor,
    tokens: tl.tensor,
    scales: tl.tensor,
    query_of: tl.tensor,
    first: tl.tensor,
    counts: tl.tensor,
    ends: tl.tensor,
    scores: tl.tensor,
    N: tl.constexpr,
    M: tl.constexpr,
    H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    pair = tl.program_id(0)
    count = tl.load(counts + pair)
    start = tl.program_id(1) * TILE
    if start >= count:
        return
    section = start + tl.arange(0, TILE * BLOCK_M) // BLOCK_M
    token = tl.arange(0, TILE * BLOCK_M) % BLOCK_M
    column = tl.arange(0, BLOCK_N)
    here = (section < count) & (token < M)
    # 64-bit offsets: two million entities have more than 2^31 bytes of tokens.
    stored = (tl.load(first + pair).to(tl.int64) + section) * M + token
    query = tl.load(query_of + pair).to(tl.int64) * N + column

    products = tl.zeros((TILE * BLOCK_M, BLOCK_N), dtype=tl.float32)
    for at in range(0, H, BLOCK_H):
        h = at + tl.arange(0, BLOCK_H)
        left = tl.load(tokens + stored[:, None] * H + h[None, :], mask=here[:, None] & (h < H)[None, :], other=0)
        right = tl.load(
            queries + query[None, :] * H + h[:, None], mask=(column < N)[None, :] & (h < H)[:, None], other=0
        )
        products = tl.dot(left.to(queries.dtype.element_ty), right, products, input_precision="ieee")
    if scales is not None:
        products *= tl.load(scales + stored, mask=here, other=0).to(tl.float32)[:, None]

    products = tl.where((token < M)[:, None], products, float("-inf"))
    nearest = tl.max(tl.reshape(products, (TILE, BLOCK_M, BLOCK_N)), axis=1)
    sums = tl.sum(tl.where((column < N)[None, :], nearest, 0.0), axis=1)
    place = start + tl.arange(0, TILE)
    tl.store(scores + tl.load(ends + pair) - count + place, sums, mask=place < count)


# The three may be rows of one array, whose alignment depends on their length; Triton would compile once for each.
kernel = triton.jit(_max_sim, do_not_specialize_on_alignment=["query_of", "first", "counts"])


def max_sim_pairs(
    queries: Tensor,
    tokens: Tensor,
    scales: Tensor | None,
    query_of: Tensor,
    first: Tensor,
    counts: Tensor,
    *,
    total: int,
    most: int,
    tile: int = TILE,
) -> Tensor:
    """Computes section scores, float32 [total]; see `retriever.kernels`.

    Arguments are not checked; `retriever.kernels.max_sim_pairs` does that.

    Args:
        queries: [B, N, H].
        tokens: The store, [R, M, H].
        scales: [R, M] for an int8 store.
        query_of: [P].
        first: [P].
        counts: [P].
        total: The sum of `counts`.
        most: The maximum of `counts`.
        tile: Sections per program, a power of 2; for benchmarks.
    """
    (_, n, h), m = queries.shape, tokens.shape[1]
    scores = queries.new_empty(total, dtype=torch.float32)
    if most == 0:
        return scores
    unit = queries.to(torch.float32 if tokens.dtype == torch.float32 else torch.float16).contiguous()
    with torch.cuda.device_of(queries):
        kernel[(len(counts), triton.cdiv(most, tile))](
            unit,
            tokens,
            scales,
            query_of,
            first,
            counts,
            counts.cumsum(0),
            scores,
            **blocks(n, m, h, tokens.element_size(), tile),
            num_warps=WARPS,
            num_stages=STAGES,
        )
    return scores


def blocks(n: int, m: int, h: int, item: int, tile: int = TILE) -> dict[str, int]:
    """Returns the kernel's constants for N query tokens, M stored tokens of length H and `item` bytes per value."""
    sizes = {"N": n, "M": m, "H": h, "TILE": tile}
    return sizes | {"BLOCK_N": _block(n), "BLOCK_M": _block(m), "BLOCK_H": min(_LINE // item, _block(h))}


def _block(size: int) -> int:
    """Rounds `size` up to a power of 2, at least the 16 that a matrix product needs."""
    return max(16, 1 << (size - 1).bit_length())
