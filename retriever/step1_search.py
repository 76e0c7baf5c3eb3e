"""Step 1, entity search: the query's picture against one vector per entity."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.protocols import DualEncoder, EntityIndex, Finish
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

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns what finds each query's nearest entities by `sim_c`, best first.

        There are fewer than `k` where the index holds fewer.

        Raises:
            ValueError: A query's `k` is below 1.
        """
        wanted = [self.k if query.options.k is None else _checked(query.options.k) for query in queries]
        vectors = self.encoder.encode_images([query.image for query in queries])

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            most = max(1, min(max(wanted, default=1), len(self.index)))
            scores, rows = self.index.search(vectors, most)
            return [
                [Candidate(row, sim_c, score=sim_c) for row, sim_c in list(zip(*found, strict=True))[:k] if row >= 0]
                for k, *found in zip(wanted, rows.tolist(), scores.tolist(), strict=True)
            ]

        return finish


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k: {k} where at least 1 is due")
    return k
