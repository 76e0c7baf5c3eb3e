"""Step 1, entity search: the query image against one vector per entity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from retriever.asking import EntityIndex
from retriever.crops import Propose
from retriever.protocols import DualEncoder, EncodeParts, Finish, JoinedEncoder
from retriever.types import Candidate, Crop, Filter, FloatArray, IntArray, Query

AddByText = Callable[[Query, Tensor, Sequence[Candidate], int], list[Candidate]]
"""Returns so many candidates of a query with text, given its image's vector and the candidates of the image alone."""


class EntitySearch:
    """Finds the `k` entities nearest to the query image; as the first step, ignores the candidates that it is given.

    Args:
        encoder: The encoder that the index was built with.
        index: The index to search.
        k: Candidates per query, unless the query's options set another number.
        second_network: Whether candidates get `sim_p`, if the encoder joins two networks. It costs a second search of
            the index in the same call, so it is for those who weigh it.
        by_text: Adds what is found by the text on an image (`retriever.label_reading`).

    Attributes:
        propose: Says which parts of an image to search if it is not recognized (`retriever.crops`), if known.

    Raises:
        ValueError: `k` is below 1.
    """

    name = "step1"
    propose: Propose | None = None

    def __init__(
        self,
        encoder: DualEncoder,
        index: EntityIndex,
        k: int = 20,
        *,
        second_network: bool = False,
        by_text: AddByText | None = None,
    ) -> None:
        self.encoder, self.index, self.k, self.second_network = encoder, index, _checked(k), second_network
        self.by_text = by_text

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the images; the returned function searches for the nearest entities by `sim_c`, best first.

        With `second_network`, the index is also searched with what that one sees, and a query that has `text` by that.
        A query gets fewer than `k` candidates if the index has fewer entities that are not excluded.

        Raises:
            ValueError: A query's `k` is below 1.
        """
        wanted = [self.k if query.options.k is None else _checked(query.options.k) for query in queries]
        excluded = [set(query.options.exclude) for query in queries]
        vectors = self.encoder.encode_images([query.image for query in queries])
        encoder = self.encoder
        appended = encoder.appended if self.second_network and isinstance(encoder, JoinedEncoder) else 0
        others = vectors.shape[1] - appended
        both = torch.cat([vectors, functional.pad(vectors[:, others:], (others, 0))]) if appended else vectors

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            needed = max((k + len(rows) for k, rows in zip(wanted, excluded, strict=True)), default=1)
            filters = [query.options.filter for query in queries] * (2 if appended else 1)
            scores, rows = _search(self.index, both, max(1, min(needed, len(self.index))), filters)
            lists = [
                {row: sim for row, sim in zip(*pair, strict=True) if row >= 0}
                for pair in zip(rows.tolist(), scores.tolist(), strict=True)
            ]
            found: list[list[Candidate]] = []
            for number, (own, k, left_out) in enumerate(zip(lists[: len(queries)], wanted, excluded, strict=True)):
                second = lists[len(queries) + number] if appended else {}
                lowest = min(second.values(), default=None)
                kept = [
                    Candidate(row, sim_c, score=sim_c, sim_p=second.get(row, lowest))
                    for row, sim_c in own.items()
                    if row not in left_out
                ]
                found.append(kept[:k])
            for number, query in enumerate(queries):
                if query.text and self.by_text is not None:
                    found[number] = self.by_text(query, vectors[number], found[number], wanted[number])
            return found

        return finish


def _search(index: EntityIndex, vectors: Tensor, k: int, filters: Sequence[Filter]) -> tuple[FloatArray, IntArray]:
    """Searches for each vector among the entities that fit its filter, for those with the same together."""
    if not any(filters):
        return index.search(vectors, k)
    scores, rows = np.empty((len(filters), k), np.float32), np.empty((len(filters), k), np.int64)
    for filter in set(filters):
        own = [number for number, other in enumerate(filters) if other == filter]
        scores[own], rows[own] = index.search(vectors[own], k, filter)
    return scores, rows


def part_scores(encode: EncodeParts, index: EntityIndex) -> Propose:
    """Returns a function that scores parts of a query's image as this step would, without cutting them out.

    Args:
        encode: Encodes parts of an image.
        index: The index to search.
    """

    def scores_of(query: Query, crops: Sequence[Crop]) -> list[float]:
        excluded = set(query.options.exclude)
        wanted = max(1, min(1 + len(excluded), len(index)))
        vectors = encode(query.image, crops)
        scores, rows = _search(index, vectors, wanted, [query.options.filter] * len(vectors))
        return [
            max((sim for sim, row in zip(*pair, strict=True) if row >= 0 and row not in excluded), default=0.0)
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]

    return scores_of


def _checked(k: int) -> int:
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return k
