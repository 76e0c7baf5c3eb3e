"""Step 2, fusion rerank: picture and question together against the stored tokens of every candidate's sections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from retriever.fusion import fuse
from retriever.maxsim import ScoreMode, max_sim_ragged
from retriever.protocols import EntityIndex, FusionEncoder
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

    @torch.inference_mode()
    def __call__(self, queries: Sequence[Query], candidates: list[list[Candidate]]) -> list[list[Candidate]]:
        """Returns the candidates by their fused score, best first, the sections of each by `sim_m`.

        A section without stored tokens keeps `sim_m` at `None`, and so does an entity that has none with tokens.
        """
        if not queries:
            return []
        captions = [blip_caption(query.question) for query in queries]
        tokens = self.fusion.encode([query.image for query in queries], captions)
        return [self._one(query, one, found) for query, one, found in zip(queries, tokens, candidates, strict=True)]

    def _one(self, query: Query, tokens: torch.Tensor, candidates: list[Candidate]) -> list[Candidate]:
        if not candidates:
            return []
        spans = [self.index.section_rows(candidate.row) for candidate in candidates]
        stored = self.index.tokens(np.concatenate([np.arange(span.start, span.stop) for span in spans]))
        [scores] = max_sim_ragged(tokens[None], [stored], self.mode)
        left = scores.tolist()
        for candidate, span in zip(candidates, spans, strict=True):
            sims, left = left[: len(span)], left[len(span) :]
            candidate.sim_m = max(sims, default=None)
            candidate.sections = self._sections(candidate.row, sims)
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
