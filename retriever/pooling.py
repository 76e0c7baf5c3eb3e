"""Merges tokens of a section that point in nearly the same direction: MaxSim needs only one of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_TINY = 1e-12


def pool_tokens(tokens: Tensor, count: int) -> Tensor:
    """Merges the tokens of each section to `count` unit vectors, float32 [R, min(count, M), H].

    Starting with one group per token, the two groups whose sums have the largest cosine are merged until `count` are
    left. A group's token is its normalized sum; groups are in the order of their first members. Each section is pooled
    on its own.

    Args:
        tokens: [R, M, H], normalized over H.
        count: At least 1.
    """
    unit = tokens.float()
    sections, size, _ = unit.shape
    if size <= count:
        return unit
    each, numbers = torch.arange(sections, device=unit.device), torch.arange(size, device=unit.device)
    group = numbers.repeat(sections, 1)  # each token's group, identified by its first member
    inner = unit @ unit.mT  # inner products of the groups' sums
    open_pairs = (numbers[:, None] < numbers).repeat(sections, 1, 1)
    for _ in range(size - count):
        length = inner.diagonal(dim1=1, dim2=2).clamp_min(_TINY).sqrt()
        cosine = inner / (length[:, :, None] * length[:, None, :])
        best = cosine.masked_fill(~open_pairs, -torch.inf).flatten(1).argmax(dim=1)
        kept, merged = best // size, best % size
        # The inner product is linear, so that of a merged group is the sum of those of its parts.
        inner[each, kept] += inner[each, merged]
        inner[each, :, kept] += inner[each, :, merged]
        open_pairs[each, merged] = False
        open_pairs[each, :, merged] = False
        group = torch.where(group == merged[:, None], kept[:, None], group)
    place = (group == numbers).cumsum(dim=1) - 1
    members = (place.gather(1, group)[..., None] == numbers[:count]).to(unit)
    return functional.normalize(members.mT @ unit, dim=-1)
