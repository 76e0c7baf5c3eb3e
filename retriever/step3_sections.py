"""Step 3, section rerank: the text of the question against the sections of the best entity, or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retriever.asking import EntityIndex
from retriever.fusion import fuse
from retriever.protocols import Finish, TextReranker, VectorIndex, VectorReranker
from retriever.section_scores import rescore_sections
from retriever.texts import section_passage
from retriever.types import Candidate, FloatArray, Query, ScoredSection

_Score = Callable[[Sequence[int], Sequence[Candidate]], list[FloatArray]]
"""Scores the sections of candidates, each against the question at a position in the batch."""


class SectionRerank:
    """Reranks the best entity's sections by equation 7: `beta * sim_m + (1 - beta) * sim_t`. Entities keep their order.

    With several `entities`, so many compete with their sections, as in QKVQA: each scores `weight` times its score so
    far plus `1 - weight` times that of its best section.

    Args:
        reranker: Scores passages against a question.
        index: Holds the articles, and for a `VectorReranker` the vectors of their sections if it is a `VectorIndex`.
        beta: Weight of step 2, unless a query's options set another.
        entities: How many of the best entities' sections to rerank.
        weight: Weight of an entity's score so far, if there are several.
    """

    name = "step3"

    def __init__(
        self, reranker: TextReranker, index: EntityIndex, beta: float, entities: int = 1, weight: float = 0.5
    ) -> None:
        self.reranker, self.index, self.beta = reranker, index, beta
        self.entities, self.weight = entities, weight

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the questions if need be; the returned function reranks sections of the first candidates."""
        score = self._scorer([query.question for query in queries])
        return lambda candidates: self._finish(queries, candidates, score)

    def _scorer(self, questions: Sequence[str]) -> _Score:
        reranker, index = self.reranker, self.index

        def by_text(asked: Sequence[int], found: Sequence[Candidate]) -> list[FloatArray]:
            return reranker.score([questions[i] for i in asked], [self._passages(one) for one in found])

        if not isinstance(reranker, VectorReranker) or not isinstance(index, VectorIndex):
            return by_text
        encoded = reranker.encode(questions)

        def by_vectors(asked: Sequence[int], found: Sequence[Candidate]) -> list[FloatArray]:
            stored = [index.section_vectors(one.row) for one in found]
            vectors = [
                [own[section.position] for section in one.sections]
                for one, own in zip(found, stored, strict=True)
                if own is not None
            ]
            if len(vectors) < len(found):  # an index without vectors
                return by_text(asked, found)
            passages = [self._passages(one) for one in found]
            return reranker.score_vectors([questions[i] for i in asked], passages, encoded[asked], vectors)

        return by_vectors

    def _finish(
        self, queries: Sequence[Query], candidates: list[list[Candidate]], score: _Score
    ) -> list[list[Candidate]]:
        pairs = [(position, best) for position, own in enumerate(candidates) for best in own[: self.entities]]
        asked, entities = [position for position, _ in pairs], [best for _, best in pairs]
        for best in entities:
            if not best.sections:  # no earlier step has scored sections
                best.sections = [ScoredSection(i) for i in range(len(self.index.entity(best.row).sections))]
        for position, best, sims in zip(asked, entities, score(asked, entities), strict=True):
            beta = queries[position].options.beta
            best.sections = rescore_sections(best.sections, sims.tolist(), self.beta if beta is None else beta)
        return candidates if self.entities == 1 else [self._ordered(ranked) for ranked in candidates]

    def _ordered(self, ranked: list[Candidate]) -> list[Candidate]:
        """Returns the candidates, the first ones with new scores, best first, and the others with no higher ones."""
        first, others = ranked[: self.entities], ranked[self.entities :]
        best = [candidate.sections[0].score if candidate.sections else None for candidate in first]
        scores = fuse([candidate.score for candidate in first], best, self.weight)
        for candidate, score in zip(first, scores, strict=True):
            candidate.score = score
        for candidate in others:
            candidate.score = min(candidate.score, *scores)
        return [*sorted(first, key=lambda candidate: -candidate.score), *others]

    def _passages(self, candidate: Candidate) -> list[str]:
        entity = self.index.entity(candidate.row)
        sections = [entity.sections[scored.position] for scored in candidate.sections]
        return [section_passage(entity.title, section.title, section.text) for section in sections]
