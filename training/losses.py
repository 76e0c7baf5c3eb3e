"""Step 2's training objective: late interaction (equation 4) and the contrastive loss over it (equation 6)."""

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


def contrastive_loss(similarities: Tensor, temperature: Tensor | float) -> Tensor:
    """Returns equation 6, averaged over the queries, a scalar.

    Args:
        similarities: [B, N], the positive in column 0.
        temperature: Divisor of the similarities.
    """
    target = torch.zeros(len(similarities), dtype=torch.long, device=similarities.device)
    return functional.cross_entropy(similarities / temperature, target)
