"""Training losses: CLIP's symmetric loss for step 1, and equation 6 over late interaction (equation 4) for step 2."""

from __future__ import annotations

from collections.abc import Sequence

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


def same_pairs(keys: Sequence[object]) -> Tensor:
    """Returns bool [N, N], true where two different items share a key and are therefore not negatives of each other."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    ids = torch.tensor([numbers[key] for key in keys])
    same = ids[:, None] == ids[None, :]
    return same & ~torch.eye(len(ids), dtype=torch.bool)


def clip_loss(left: Tensor, right: Tensor, scale: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Returns the mean cross-entropy of both directions, a scalar.

    Args:
        left: Vectors [N, D], not normalized; row i belongs to row i of `right`.
        right: Vectors [N, D], not normalized.
        scale: Factor for the cosines, exp(logit_scale).
        excluded: bool [N, N], pairs that are not negatives (`same_pairs`).
    """
    logits = scale * functional.normalize(left.float(), dim=-1) @ functional.normalize(right.float(), dim=-1).T
    if excluded is not None:
        logits = logits.masked_fill(excluded, -torch.inf)
    target = torch.arange(len(logits), device=logits.device)
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2
