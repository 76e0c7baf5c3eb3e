"""Late interaction (equation 4): how well a query's tokens find a match among each section's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch.nn import functional

ScoreMode = Literal["cosine", "paper", "compat"]


def max_sim(query: torch.Tensor, sections: torch.Tensor, mode: ScoreMode = "cosine") -> torch.Tensor:
    """Returns the similarity of a query and each section, float [S].

    For each query token the best inner product with a section's tokens is taken. `cosine` averages over the query's
    tokens, `paper` sums, and `compat` averages too but normalizes each of the query's dimensions over its tokens, as
    the published code does, for weights whose alpha and beta were tuned that way.

    Args:
        query: Fused tokens of image and question, [N, H], not normalized.
        sections: Stored tokens, [S, M, H], normalized over H.
        mode: How to score.
    """
    return max_sim_ragged(query[None], [sections], mode)[0]


def max_sim_ragged(
    queries: torch.Tensor, sections: Sequence[torch.Tensor], mode: ScoreMode = "cosine"
) -> list[torch.Tensor]:
    """Returns `max_sim` of each query with its own sections, one matrix product a query.

    Args:
        queries: [B, N, H].
        sections: B tensors [S_b, M, H]; S_b may be 0.
        mode: How to score.

    Raises:
        ValueError: There are not as many lists of sections as queries, or their tokens differ in length.
    """
    if len(queries) != len(sections):
        raise ValueError(f"{len(queries)} queries need as many lists of sections, got {len(sections)}")
    unit = functional.normalize(queries.float(), dim=-2 if mode == "compat" else -1)
    return [_one(query, stored, mode) for query, stored in zip(unit, sections, strict=True)]


def _one(query: torch.Tensor, sections: torch.Tensor, mode: ScoreMode) -> torch.Tensor:
    count, tokens, width = sections.shape
    if count == 0:
        return query.new_zeros(0)
    if width != query.shape[-1]:
        raise ValueError(f"tokens of length {query.shape[-1]} cannot be compared with stored ones of length {width}")
    products = sections.to(query).reshape(count * tokens, width) @ query.T
    best = products.reshape(count, tokens, -1).amax(dim=1)
    return best.sum(dim=-1) if mode == "paper" else best.mean(dim=-1)
