"""Step 3, section rerank: the text of the question against the sections of the best entity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retriever.asking import EntityIndex
from retriever.fusion import fuse
from retriever.protocols import Finish, TextReranker, VectorIndex, VectorReranker
from retriever.texts import section_passage
from retriever.types import Candidate, FloatArray, Query, ScoredSection

_Score = Callable[[Sequence[int], Sequence[Candidate]], list[FloatArray]]
"""Scores the sections of candidates, each against the question at a position in the batch."""


class SectionRerank:
    """Reranks the best entity's sections by equation 7: `beta * sim_m + (1 - beta) * sim_t`. Entities keep their order.

    Args:
        reranker: Scores passages against a question.
        index: Holds the articles, and for a `VectorReranker` the vectors of their sections if it is a `VectorIndex`.
        beta: Weight of step 2, unless a query's options set another.
    """

    name = "step3"

    def __init__(self, reranker: TextReranker, index: EntityIndex, beta: float) -> None:
        self.reranker, self.index, self.beta = reranker, index, beta

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the questions if need be; the returned function reranks the sections of the first candidates."""
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
        asked = [position for position, ranked in enumerate(candidates) if ranked]
        found = [candidates[position][0] for position in asked]
        for best in found:
            if not best.sections:  # no earlier step has scored sections
                best.sections = [ScoredSection(i) for i in range(len(self.index.entity(best.row).sections))]
        for position, best, sims in zip(asked, found, score(asked, found), strict=True):
            beta = queries[position].options.beta
            best.sections = rescore_sections(best.sections, sims.tolist(), self.beta if beta is None else beta)
        return candidates

    def _passages(self, candidate: Candidate) -> list[str]:
        entity = self.index.entity(candidate.row)
        sections = [entity.sections[scored.position] for scored in candidate.sections]
        return [section_passage(entity.title, section.title, section.text) for section in sections]


def rescore_sections(sections: Sequence[ScoredSection], sims: Sequence[float], beta: float) -> list[ScoredSection]:
    """Returns sections with their `sim_t` and the score of equation 7, best first; equal scores keep their order."""
    fused = fuse([section.sim_m for section in sections], sims, beta)
    scored = [
        ScoredSection(section.position, section.sim_m, sim_t, score)
        for section, sim_t, score in zip(sections, sims, fused, strict=True)
    ]
    return sorted(scored, key=lambda section: -(section.score or 0.0))
