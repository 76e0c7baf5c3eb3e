"""Step 2, fusion rerank: image and question together against the stored tokens of every candidate."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from retriever.fusion import fuse
from retriever.maxsim import ScoreMode, max_sim_spans
from retriever.protocols import EntityIndex, Finish, FusionEncoder
from retriever.texts import blip_caption
from retriever.types import Candidate, Query, ScoredSection


class FusionRerank:
    """Reranks candidates by equation 5: `alpha * sim_c + (1 - alpha) * max over its sections of sim_m`.

    Beyond the paper, an entity whose images have tokens of their own (labeled images, and the images of an article
    with several) scores by the best of these instead; its sections are still ranked by `sim_m`. A section's score also
    rewards a text that fits the question, and wrong entities have such sections, too; another photograph of the same
    entity says more about what the query's image shows.

    Args:
        fusion: The encoder that made the stored tokens of `index`.
        index: Holds the articles and the tokens.
        alpha: Weight of step 1 unless a query's options set another.
        mode: How tokens are compared.
    """

    name = "step2"

    def __init__(self, fusion: FusionEncoder, index: EntityIndex, alpha: float, mode: ScoreMode = "cosine") -> None:
        self.fusion, self.index, self.alpha, self.mode = fusion, index, alpha, mode

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the queries; the returned function ranks candidates by fused score and their sections by `sim_m`.

        Sections without stored tokens keep `sim_m` at `None`, as do entities without any.
        """
        captions = [blip_caption(query.question) for query in queries]
        tokens = self.fusion.encode([query.image for query in queries], captions)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            self._score(tokens, candidates)
            return [self._fused(query, ranked) for query, ranked in zip(queries, candidates, strict=True)]

        return finish

    @torch.inference_mode()
    def _score(self, tokens: torch.Tensor, candidates: list[list[Candidate]]) -> None:
        """Sets `sim_m` and the sections of all candidates, in one call of MaxSim."""
        pairs = [(query, candidate) for query, ranked in enumerate(candidates) for candidate in ranked]
        if not pairs:
            return
        spans = [self.index.token_rows(candidate.row) for _, candidate in pairs]
        scores = max_sim_spans(tokens, self.index.gather(spans), [query for query, _ in pairs], spans, self.mode)
        for (_, candidate), sims in zip(pairs, scores, strict=True):
            sections = len(self.index.section_rows(candidate.row))
            candidate.sim_m = max(sims[sections:] or sims, default=None)
            candidate.sections = self._sections(candidate.row, sims[:sections])

    def _fused(self, query: Query, candidates: list[Candidate]) -> list[Candidate]:
        alpha = self.alpha if query.options.alpha is None else query.options.alpha
        fused = fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], alpha)
        for candidate, score in zip(candidates, fused, strict=True):
            candidate.score = score
        return sorted(candidates, key=lambda candidate: -candidate.score)

    def _sections(self, row: int, sims: list[float]) -> list[ScoredSection]:
        if not sims:
            return [ScoredSection(position) for position in range(len(self.index.entity(row).sections))]
        sections = [ScoredSection(position, sim, score=sim) for position, sim in enumerate(sims)]
        return sorted(sections, key=lambda section: -(section.sim_m or 0.0))
