"""Equation 7: the scores of sections in step 3."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.fusion import fuse
from retriever.types import ScoredSection


def rescore_sections(sections: Sequence[ScoredSection], sims: Sequence[float], beta: float) -> list[ScoredSection]:
    """Returns sections with their `sim_t` and the score of equation 7, best first; equal scores keep their order."""
    fused = fuse([section.sim_m for section in sections], sims, beta)
    scored = [
        ScoredSection(section.position, section.sim_m, sim_t, score)
        for section, sim_t, score in zip(sections, sims, fused, strict=True)
    ]
    return sorted(scored, key=lambda section: -(section.score or 0.0))
