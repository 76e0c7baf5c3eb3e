"""Late interaction in PyTorch: one matrix product per pair, for CPUs and without Triton."""

from __future__ import annotations

import torch
from torch import Tensor


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
) -> tuple[Tensor, Tensor]:
    """Computes section scores, float32 [total], and the maximum per pair, float32 [P]; see `retriever.kernels`.

    Products and sums are float32. int8 tokens are scaled after the product, which has N columns instead of H.

    Raises:
        ValueError: Rows of a pair are outside the store, or `total` or `most` do not match `counts`.
    """
    sizes: list[int] = counts.tolist()
    if min(sizes, default=0) < 0 or sum(sizes) != total or max(sizes, default=0) != most:
        raise ValueError(f"counts: must be 0 or more with sum {total} and maximum {most}, got {sizes}")
    scores = queries.new_empty(total, dtype=torch.float32)
    best = queries.new_full((len(sizes),), float("-inf"), dtype=torch.float32)
    unit, at = queries.float(), 0
    for pair, (query, start, size) in enumerate(zip(query_of.tolist(), first.tolist(), sizes, strict=True)):
        if size == 0:
            continue
        if not 0 <= start <= len(tokens) - size:
            raise ValueError(
                f"first: pair {pair} has rows {start} to {start + size - 1}, but the store has {len(tokens)}"
            )
        rows = slice(start, start + size)
        found = _nearest(unit[query], tokens[rows], None if scales is None else scales[rows]).sum(dim=-1)
        scores[at : at + size], best[pair] = found, found.max()
        at += size
    return scores, best


def _nearest(query: Tensor, sections: Tensor, scales: Tensor | None) -> Tensor:
    """Returns the largest inner product of each query token [N, H] with each section's tokens [S, M, H], [S, N]."""
    products: Tensor = sections.float().flatten(0, 1) @ query.T
    if scales is not None:
        products *= scales.float().reshape(-1, 1)
    return products.view(*sections.shape[:2], -1).amax(dim=1)
