"""CLIP's symmetric loss over pairs, some of which are not negatives of each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


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
