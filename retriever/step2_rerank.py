"""Step 2, fusion rerank: image and question together against the stored tokens of every candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from retriever.fusion import fuse
from retriever.maxsim import ScoreMode, max_sim_spans
from retriever.protocols import EntityIndex, Finish, FusionEncoder, TokenIndex
from retriever.texts import blip_caption
from retriever.types import Candidate, Query, ScoredSection


class FusionRerank:
    """Reranks candidates by equation 5: `alpha * sim_c + (1 - alpha) * max over its sections of sim_m`.

    Unlike in the paper, an entity whose images have tokens of their own (labeled images and, with `search.image_keys`
    above 1, the article's images) scores by the best of these instead; its sections are still ranked by `sim_m`. A
    section also scores well for text that matches the question, and wrong entities have such sections, too; images of
    the entity are better evidence of what the query image shows. They are compared with the query image alone, so how a
    question is worded does not change which entity is recognized.

    Args:
        fusion: The encoder that computed the stored tokens of `index`.
        index: Holds the articles and the tokens.
        alpha: Weight of step 1, unless a query's options set another.
        mode: How tokens are compared.
    """

    name = "step2"

    def __init__(self, fusion: FusionEncoder, index: EntityIndex, alpha: float, mode: ScoreMode = "cosine") -> None:
        self.fusion, self.index, self.alpha, self.mode = fusion, index, alpha, mode

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes each image with its question and alone; the returned function ranks candidates and their sections.

        `sim_m` stays `None` for sections without stored tokens and for entities without any.
        """
        texts = [(blip_caption(query.question), "") for query in queries]
        tokens = self.fusion.encode_sections([query.image for query in queries], texts)

        def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
            score_candidates(tokens[::2], tokens[1::2], candidates, self.index, self.mode)
            for candidate in chain.from_iterable(candidates):
                if not candidate.sections:
                    count = len(self.index.entity(candidate.row).sections)
                    candidate.sections = [ScoredSection(position) for position in range(count)]
            return [
                rank_candidates(ranked, self._alpha(query)) for query, ranked in zip(queries, candidates, strict=True)
            ]

        return finish

    def _alpha(self, query: Query) -> float:
        return self.alpha if query.options.alpha is None else query.options.alpha


@torch.inference_mode()
def score_candidates(
    tokens: torch.Tensor,
    alone: torch.Tensor,
    candidates: Sequence[Sequence[Candidate]],
    index: TokenIndex,
    mode: ScoreMode = "cosine",
) -> None:
    """Sets `sim_m` and the sections of all candidates, best first, in one call of MaxSim.

    Candidates without stored tokens get no `sim_m` and no sections.

    Args:
        tokens: Fused tokens of the queries' images and questions, [B, N, H], not normalized, to score sections.
        alone: Those of the images without text, [B, N, H], to score images.
        candidates: The candidates of each query.
        index: Holds the tokens of the candidates.
        mode: How tokens are compared.
    """
    pairs = [(query, candidate) for query, ranked in enumerate(candidates) for candidate in ranked]
    if not pairs:
        return
    spans = [index.token_rows(candidate.row) for _, candidate in pairs]
    counts = [len(index.section_rows(candidate.row)) for _, candidate in pairs]
    stored, asked = index.gather(spans), [query for query, _ in pairs]
    parts = [span[:count] for span, count in zip(spans, counts, strict=True)]
    parts += [span[count:] for span, count in zip(spans, counts, strict=True)]
    firsts = np.concatenate([stored.first, stored.first + np.array(counts, np.int64)])
    rows = [*asked, *(len(tokens) + query for query in asked)]
    scores = max_sim_spans(torch.cat([tokens, alone]), replace(stored, first=firsts), rows, parts, mode)
    for (_, candidate), sims, images in zip(pairs, scores[: len(pairs)], scores[len(pairs) :], strict=True):
        candidate.sim_m = max(images or sims, default=None)
        sections = [ScoredSection(position, sim, score=sim) for position, sim in enumerate(sims)]
        candidate.sections = sorted(sections, key=lambda section: -(section.sim_m or 0.0))


def rank_candidates(candidates: Sequence[Candidate], alpha: float) -> list[Candidate]:
    """Sets the candidates' scores by equation 5 and returns them, best first; equal scores keep their order."""
    fused = fuse([c.sim_c for c in candidates], [c.sim_m for c in candidates], alpha)
    for candidate, score in zip(candidates, fused, strict=True):
        candidate.score = score
    return sorted(candidates, key=lambda candidate: -candidate.score)
