"""Late interaction (equation 4): how well a query's tokens find a match among each section's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from retriever.kernels import max_sim_pairs
from retriever.types import StoredTokens

ScoreMode = Literal["cosine", "paper", "compat"]


def max_sim_spans(
    queries: Tensor,
    stored: StoredTokens,
    query_of: Sequence[int],
    spans: Sequence[range],
    mode: ScoreMode = "cosine",
) -> list[list[float]]:
    """Returns the similarity of a query and each section of a span, for every span.

    For each query token the best inner product with a section's tokens is taken. `cosine` averages over the query's
    tokens, `paper` sums, and `compat` averages too but normalizes each of the query's dimensions over its tokens, as
    the published code does, for weights whose alpha and beta were tuned that way.

    Args:
        queries: Fused tokens of image and question, [B, N, H], not normalized.
        stored: What the index holds of `spans`.
        query_of: The query of each span.
        spans: Rows of an entity's sections; may be empty.
        mode: How to score.

    Raises:
        ValueError: Tokens of queries and sections differ in length.
    """
    unit = functional.normalize(queries.float(), dim=-2 if mode == "compat" else -1)
    device = stored.values.device
    counts = [len(span) for span in spans]
    scores, _ = max_sim_pairs(
        unit.to(device),
        stored.values,
        stored.scales,
        torch.tensor(query_of, device=device),
        torch.from_numpy(stored.first).to(device),
        torch.tensor(counts, device=device),
        total=sum(counts),
        most=max(counts, default=0),
    )
    if mode != "paper":
        scores = scores / queries.shape[-2]
    return [part.tolist() for part in scores.cpu().split(counts)]
