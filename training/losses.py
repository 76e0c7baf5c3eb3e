"""What step 2's training minimizes: late interaction (equation 4) and its contrastive loss (equation 6)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def mean_max_sim(query: Tensor, candidates: Tensor) -> Tensor:
    """Returns late-interaction similarities, float32 [B, N], each in -1..1.

    Every query token takes the cosine of the candidate token that is nearest to it; these are averaged.

    Args:
        query: Tokens [B, Q, H]; any length.
        candidates: Tokens of each query's own candidates, [B, N, C, H].
    """
    query = functional.normalize(query.float(), dim=-1)
    candidates = functional.normalize(candidates.float(), dim=-1)
    cosines = torch.einsum("bqh,bnch->bnqc", query, candidates)
    return cosines.amax(-1).mean(-1)


def contrastive_loss(similarities: Tensor, temperature: Tensor | float) -> Tensor:
    """Returns equation 6 averaged over the queries, a scalar.

    Args:
        similarities: [B, N], the positive in column 0.
        temperature: What they are divided by.
    """
    target = torch.zeros(len(similarities), dtype=torch.long, device=similarities.device)
    return functional.cross_entropy(similarities / temperature, target)
