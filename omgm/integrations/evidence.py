"""What the retrievers of all frameworks say of a section beside its text."""

from __future__ import annotations

from typing import Any

from serving.schemas import EvidenceOut, RetrieveOut


def metadata_of(found: RetrieveOut, part: EvidenceOut) -> dict[str, Any]:
    """Returns where a section is from and how well it fits."""
    entity = part.entity
    return {
        "entity_id": entity.id,
        "title": entity.title,
        "url": entity.url,
        "section": part.section,
        "score": part.scores.score,
        "recognized": found.recognized,
    }
