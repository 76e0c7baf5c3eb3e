"""Converts an index's entities, sections and images to parts of responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from retriever.asking import EntityIndex
from retriever.results import Retrieval
from serving.schemas import ArticleOut, CandidateOut, EntityOut, EvidenceOut, IndexOut, RetrieveOut


@runtime_checkable
class ResidentIndex(Protocol):
    """An optional extension of an index that knows where its tokens are."""

    @property
    def residency(self) -> object:
        """Where they are and why; `str` says it in words."""


class IndexView:
    """Converts an index and its retrieval results to parts of responses."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index

    def about(self) -> IndexOut:
        """Returns the name and size of the index."""
        return IndexOut(name=self._index.name, entities=len(self._index))

    def tokens(self) -> str | None:
        """Returns where the tokens are and why, in words; `None` for an index that is not in files."""
        return str(self._index.residency) if isinstance(self._index, ResidentIndex) else None

    def article(self, row: int) -> ArticleOut:
        """Returns an article."""
        return ArticleOut.of(self._index.entity(row), image=self._image(row))

    def entity(self, row: int) -> EntityOut:
        """Returns an entity."""
        return EntityOut.of(self._index.entity(row), image=self._image(row))

    def current_image(self, row: int) -> Path | None:
        """Returns the thumbnail of a row unless its entity was removed or has another image now."""
        path = self._index.image_path(row)
        if path is None:
            return None
        now = self._index.row_of(self._index.entity(row).id)
        other = None if now is None or now == row else self._index.image_path(now)
        same = now == row or (other is not None and other.read_bytes() == path.read_bytes())
        return path if same else None

    def retrieved(self, found: Retrieval, most: int, **more: Any) -> RetrieveOut:
        """Returns the response to a retrieval with the best sections, at most `most`; `more` are its other fields."""
        entity = self.entity(found.candidates[0].row) if found.candidates else None
        return RetrieveOut.of(
            found,
            entity=entity,
            evidence=[
                EvidenceOut.of(one, entity=entity, section=one.title, section_index=one.index, scores=one)
                for one in found.sections[:most]
            ],
            candidates=[
                CandidateOut.of(one, entity_id=one.entity, image=_url(one.row, one.image)) for one in found.candidates
            ],
            index=self.about(),
            **more,
        )

    def _image(self, row: int) -> str | None:
        return _url(row, self._index.image_path(row))


def _url(row: int, path: Path | None) -> str | None:
    return None if path is None else f"/entities/{row}/image"
