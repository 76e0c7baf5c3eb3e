"""Late interaction of queries with ragged lists of candidates, by plain PyTorch: one matrix product a pair."""

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
    """Returns the score of every section of every pair, float32 [total], and the best of each pair, float32 [P]."""
    scores, best = [], []
    for query, start, count in zip(query_of.tolist(), first.tolist(), counts.tolist(), strict=True):
        block = tokens[start : start + count].float()
        if scales is not None:
            block = block * scales[start : start + count, :, None].float()
        products = block.flatten(0, 1) @ queries[query].float().T
        found = products.view(count, -1, len(queries[query])).amax(1).sum(1) if count else products.new_zeros(0)
        scores.append(found)
        best.append(found.max() if count else found.new_tensor(float("-inf")))
    empty = queries.new_zeros(0, dtype=torch.float32)
    return torch.cat([empty, *scores]), torch.stack(best) if best else empty
