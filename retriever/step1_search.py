"""Step 1, entity search: the query's picture against one vector per entity."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.protocols import DualEncoder, EntityIndex
from retriever.types import Candidate, Query


class EntitySearch:
    """Finds the `k` entities nearest to the picture; it starts lists, so what it is given is dropped.

    Args:
        encoder: Has encoded the entities of `index`.
        index: What is searched.
        k: Candidates a query, where its options name no other number.

    Raises:
        ValueError: `k` is below 1.
    """

    name = "step1"

    def __init__(self, encoder: DualEncoder, index: EntityIndex, k: int = 20) -> None:
        self.encoder, self.index, self.k = encoder, index, _checked(k)

    def __call__(self, queries: Sequence[Query], candidates: list[list[Candidate]]) -> list[list[Candidate]]:
        """Returns each query's nearest entities by `sim_c`, best first; fewer than `k` where the index holds fewer.

        Raises:
            ValueError: A query's `k` is below 1.
        """
        if not queries:
            return []
        wanted = [self.k if query.options.k is None else _checked(query.options.k) for query in queries]
        most = max(1, min(max(wanted), len(self.index)))
        scores, rows = self.index.search(self.encoder.encode_images([query.image for query in queries]), most)
        return [
            [Candidate(row, sim_c, score=sim_c) for row, sim_c in list(zip(*found, strict=True))[:k] if row >= 0]
            for k, *found in zip(wanted, rows.tolist(), scores.tolist(), strict=True)
        ]


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k: {k} where at least 1 is due")
    return k
