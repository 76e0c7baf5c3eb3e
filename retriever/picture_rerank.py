"""The step `rerank-vl`: a vision-language reranker compares the query's image with those of the best candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from retriever.asking import EntityIndex
from retriever.images import load_image
from retriever.models.qwen3_vl import Pictured
from retriever.protocols import Finish
from retriever.types import Candidate, FloatArray, Query

_BEGINNING = 600
"""Characters of an article that the model reads."""

Score = Callable[[Sequence[tuple[Pictured, Pictured]]], FloatArray]
"""Returns how well the second of each pair answers the first, [N] in [0, 1]."""


class PictureRerank:
    """Ranks the best candidates by `(1 - weight) * score + weight * p`, where p is the model's probability.

    The model sees the query's image and question, and each candidate's main image, title and beginning. The others
    keep their order behind them.

    Args:
        score: The model.
        index: Holds the candidates' articles and images.
        candidates: How many of the best candidates are ranked.
        weight: Weight of the model, 0 to 1.
    """

    name = "rerank-vl"

    def __init__(self, score: Score, index: EntityIndex, candidates: int = 10, weight: float = 0.5) -> None:
        self._score, self._index, self._candidates, self._weight = score, index, candidates, weight

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that ranks the candidates of each query, all pairs in one call of the model."""

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            best = [ranked[: self._candidates] for ranked in candidates]
            pairs = [
                (_asked(query), self._pictured(candidate.row))
                for query, ranked in zip(queries, best, strict=True)
                for candidate in ranked
            ]
            for candidate, p in zip(chain.from_iterable(best), self._score(pairs), strict=True):
                candidate.score = (1 - self._weight) * candidate.score + self._weight * float(p)
            return [
                sorted(ranked, key=lambda candidate: -candidate.score) + every[self._candidates :]
                for ranked, every in zip(best, candidates, strict=True)
            ]

        return finish

    def _pictured(self, row: int) -> Pictured:
        entity, path = self._index.entity(row), self._index.image_path(row)
        texts = [entity.title, *(section.text for section in entity.sections[:1])]
        return Pictured("\n".join(texts)[:_BEGINNING], None if path is None else load_image(path))


def _asked(query: Query) -> Pictured:
    return Pictured(query.question, query.image if query.image.width else None)
