"""Step 3, section rerank: the text of the question against the sections of the best entity."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.fusion import fuse
from retriever.protocols import EntityIndex, Finish, TextReranker
from retriever.texts import section_passage
from retriever.types import Candidate, Query, ScoredSection


class SectionRerank:
    """Reranks the best entity's sections by equation 7: `beta * sim_m + (1 - beta) * sim_t`. Entities keep their order.

    Args:
        reranker: Scores passages against a question.
        index: Holds the articles.
        beta: Weight of step 2, unless a query's options set another.
    """

    name = "step3"

    def __init__(self, reranker: TextReranker, index: EntityIndex, beta: float) -> None:
        self.reranker, self.index, self.beta = reranker, index, beta

    def start(self, queries: Sequence[Query]) -> Finish:
        """Computes nothing yet; the returned function reranks the sections of each query's first candidate."""
        return lambda candidates: self._finish(queries, candidates)

    def _finish(self, queries: Sequence[Query], candidates: list[list[Candidate]]) -> list[list[Candidate]]:
        pairs = [(query, ranked[0]) for query, ranked in zip(queries, candidates, strict=True) if ranked]
        for _, best in pairs:
            if not best.sections:  # no earlier step has scored sections
                best.sections = [ScoredSection(i) for i in range(len(self.index.entity(best.row).sections))]
        questions = [query.question for query, _ in pairs]
        scores = self.reranker.score(questions, [self._passages(best) for _, best in pairs])
        for (query, best), sims in zip(pairs, scores, strict=True):
            beta = self.beta if query.options.beta is None else query.options.beta
            best.sections = rescore_sections(best.sections, sims.tolist(), beta)
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
