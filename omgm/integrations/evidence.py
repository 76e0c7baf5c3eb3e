"""The metadata of a section, shared by the retrievers of all frameworks."""

from __future__ import annotations

from typing import Any

from serving.schemas import EvidenceOut, RetrieveOut


def metadata_of(found: RetrieveOut, part: EvidenceOut) -> dict[str, Any]:
    """Returns the source and the scores of a section."""
    entity = part.entity
    return {
        "entity_id": entity.id,
        "title": entity.title,
        "url": entity.url,
        "section": part.section,
        "score": part.scores.score,
        "recognized": found.recognized,
    }
