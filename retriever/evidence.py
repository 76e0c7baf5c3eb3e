"""The evidence: the best section of the best candidate, from which the answer is read."""

from __future__ import annotations

from collections.abc import Sequence

from retriever.protocols import EntityIndex
from retriever.types import Candidate, Evidence


def best_evidence(index: EntityIndex, candidates: Sequence[Candidate]) -> Evidence | None:
    """Returns the first section of the first candidate, or `None` without candidates or sections.

    Args:
        index: Holds the candidates' articles.
        candidates: The result of a pipeline, best first.
    """
    if not candidates or not candidates[0].sections:
        return None
    entity = index.entity(candidates[0].row)
    section = entity.sections[candidates[0].sections[0].position]
    return Evidence(entity.id, entity.title, section.title, section.text, section.index)
