"""Late interaction (equation 4): MaxSim between the tokens of queries and the stored tokens of sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
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
    """Scores every section of each span against the span's query.

    Each query token contributes its largest inner product with a token of the section. `cosine` averages over the query
    tokens and `paper` sums. `compat` also averages but normalizes each dimension of the query over its tokens, like the
    published code, for weights whose alpha and beta were tuned that way.

    Args:
        queries: Fused tokens of image and question, [B, N, H], not normalized.
        stored: The tokens of `spans`, as the index returns them.
        query_of: For each span, the row of its query in `queries`.
        spans: Each is the rows of one entity's sections and may be empty.
        mode: How to normalize and aggregate.

    Returns:
        One list of scores per span, in the order of its sections. The host waits for a GPU only here, once.

    Raises:
        ValueError: Tokens of queries and sections differ in length, or a span is outside the stored rows.
    """
    unit = functional.normalize(queries.float(), dim=-2 if mode == "compat" else -1)
    counts = [len(span) for span in spans]
    pairs = np.array([query_of, stored.first, counts], np.int64)
    scores = max_sim_pairs(unit.to(stored.values.device), stored.values, stored.scales, pairs)
    if mode != "paper":
        scores = scores / queries.shape[-2]
    return [part.tolist() for part in scores.cpu().split(counts)]
