"""Step 1, entity search: the query image against one vector per entity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PIL import Image
from torch import Tensor

from retriever.crops import Propose
from retriever.protocols import DualEncoder, EntityIndex, Finish
from retriever.types import Candidate, Crop, Query


class EntitySearch:
    """Finds the `k` entities nearest to the query image; as the first step, ignores the candidates that it is given.

    Args:
        encoder: The encoder that the index was built with.
        index: The index to search.
        k: Candidates per query, unless the query's options set another number.

    Raises:
        ValueError: `k` is below 1.
    """

    name = "step1"

    def __init__(self, encoder: DualEncoder, index: EntityIndex, k: int = 20) -> None:
        self.encoder, self.index, self.k = encoder, index, _checked(k)

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the images; the returned function searches for the nearest entities by `sim_c`, best first.

        A query gets fewer than `k` candidates if the index has fewer entities that are not excluded.

        Raises:
            ValueError: A query's `k` is below 1.
        """
        wanted = [self.k if query.options.k is None else _checked(query.options.k) for query in queries]
        excluded = [set(query.options.exclude) for query in queries]
        vectors = self.encoder.encode_images([query.image for query in queries])

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            needed = max((k + len(rows) for k, rows in zip(wanted, excluded, strict=True)), default=1)
            scores, rows = self.index.search(vectors, max(1, min(needed, len(self.index))))
            found = []
            for own_rows, sims, k, left_out in zip(rows.tolist(), scores.tolist(), wanted, excluded, strict=True):
                kept = [
                    Candidate(row, sim_c, score=sim_c)
                    for row, sim_c in zip(own_rows, sims, strict=True)
                    if row >= 0 and row not in left_out
                ]
                found.append(kept[:k])
            return found

        return finish


def part_scores(encode: Callable[[Image.Image, Sequence[Crop]], Tensor], index: EntityIndex) -> Propose:
    """Returns a function that scores parts of a query's image as this step would, without cutting them out.

    Args:
        encode: Encodes parts of an image, as `retriever.models.image_parts.part_encoder` returns it.
        index: The index to search.
    """

    def scores_of(query: Query, crops: Sequence[Crop]) -> list[float]:
        excluded = set(query.options.exclude)
        wanted = max(1, min(1 + len(excluded), len(index)))
        scores, rows = index.search(encode(query.image, crops), wanted)
        return [
            max((sim for sim, row in zip(*pair, strict=True) if row >= 0 and row not in excluded), default=0.0)
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]

    return scores_of


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return k
