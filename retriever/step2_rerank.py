"""Step 2, fusion rerank: picture and question together against the stored tokens of every candidate's sections."""

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

    Args:
        fusion: Has made the stored tokens of `index`.
        index: Where articles and tokens are.
        alpha: Weight of step 1, where a query's options name no other.
        mode: How tokens are compared.
    """

    name = "step2"

    def __init__(self, fusion: FusionEncoder, index: EntityIndex, alpha: float, mode: ScoreMode = "cosine") -> None:
        self.fusion, self.index, self.alpha, self.mode = fusion, index, alpha, mode

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns what orders candidates by their fused score, best first, and the sections of each by `sim_m`.

        A section without stored tokens keeps `sim_m` at `None`, and so does an entity that has none with tokens.
        """
        captions = [blip_caption(query.question) for query in queries]
        tokens = self.fusion.encode([query.image for query in queries], captions)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            self._score(tokens, candidates)
            return [self._fused(query, found) for query, found in zip(queries, candidates, strict=True)]

        return finish

    @torch.inference_mode()
    def _score(self, tokens: torch.Tensor, candidates: list[list[Candidate]]) -> None:
        """Sets `sim_m` and the sections of every candidate, all in one call."""
        pairs = [(query, candidate) for query, found in enumerate(candidates) for candidate in found]
        if not pairs:
            return
        spans = [self.index.section_rows(candidate.row) for _, candidate in pairs]
        scores = max_sim_spans(tokens, self.index.gather(spans), [query for query, _ in pairs], spans, self.mode)
        for (_, candidate), sims in zip(pairs, scores, strict=True):
            candidate.sim_m = max(sims, default=None)
            candidate.sections = self._sections(candidate.row, sims)

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
