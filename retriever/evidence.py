"""The evidence: the best section of the best candidate is what an answer is read from."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.protocols import EntityIndex
from retriever.types import Candidate, Evidence


def best_evidence(index: EntityIndex, candidates: Sequence[Candidate]) -> Evidence | None:
    """Returns the first section of the first candidate, `None` without candidates or sections.

    Args:
        index: Where the candidates' articles are.
        candidates: As a pipeline leaves them, best first.
    """
    if not candidates or not candidates[0].sections:
        return None
    entity = index.entity(candidates[0].row)
    section = entity.sections[candidates[0].sections[0].position]
    return Evidence(entity.id, entity.title, section.title, section.text, section.index)
