"""Step 2's training loss: equation 6 over late interaction (equation 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def mean_max_sim(query: Tensor, candidates: Tensor) -> Tensor:
    """Returns late-interaction similarities, float32 [B, N], each in -1..1.

    The similarity is the mean, over the query tokens, of the highest cosine with any candidate token.

    Args:
        query: Tokens [B, Q, H], of any length.
        candidates: Tokens of each query's own candidates, [B, N, C, H].
    """
    query = functional.normalize(query.float(), dim=-1)
    candidates = functional.normalize(candidates.float(), dim=-1)
    cosines = torch.einsum("bqh,bnch->bnqc", query, candidates)
    return cosines.amax(-1).mean(-1)


def max_sim(queries: Tensor, candidates: Tensor) -> Tensor:
    """Returns the similarity (see `mean_max_sim`) of every query to every candidate, float32 [B, N].

    Args:
        queries: Tokens [B, Q, H], of any length.
        candidates: Tokens [N, C, H].
    """
    first, second = (functional.normalize(tokens.float(), dim=-1) for tokens in (queries, candidates))
    cosines: Tensor = (first.flatten(0, 1) @ second.flatten(0, 1).T).unflatten(1, second.shape[:2])
    best: Tensor = cosines.amax(-1).unflatten(0, first.shape[:2])
    return best.mean(1)


def contrastive_loss(similarities: Tensor, temperature: Tensor | float) -> Tensor:
    """Returns equation 6, averaged over the queries, a scalar.

    Args:
        similarities: [B, N], the positive in column 0.
        temperature: Divisor of the similarities.
    """
    target = torch.zeros(len(similarities), dtype=torch.long, device=similarities.device)
    return functional.cross_entropy(similarities / temperature, target)
