"""Converts an index's entities, sections and images to parts of responses."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import quote, unquote

from retriever.asking import EntityIndex
from retriever.filters import SCOPE, fits
from retriever.results import Retrieval
from serving.schemas import ArticleOut, CandidateOut, EntityOut, EvidenceOut, ImageOut, IndexOut, RetrieveOut

_ADDRESS = re.compile(r"/entities/[^/?#]+/image(?:\?id=([^&#]*))?")


@runtime_checkable
class ResidentIndex(Protocol):
    """An optional extension of an index that knows where its tokens are."""

    @property
    def residency(self) -> object:
        """Where they are and why; `str` says it in words."""


class IndexView:
    """Converts an index and its retrieval results to parts of responses; `counted` says whether its size is told."""

    def __init__(self, index: EntityIndex, counted: bool = True) -> None:
        self._index, self._counted = index, counted

    def about(self) -> IndexOut:
        """Returns the name and size of the index."""
        return IndexOut(name=self._index.name, entities=len(self._index) if self._counted else None)

    def tokens(self) -> str | None:
        """Returns where the tokens are and why, in words; `None` for an index that is not in files."""
        return str(self._index.residency) if isinstance(self._index, ResidentIndex) else None

    def article(self, row: int) -> ArticleOut:
        """Returns an article."""
        entity, fields = self._index.entity(row), dict[str, list[str]]()
        for name, value in entity.fields:
            fields.setdefault(name, []).append(value)
        return ArticleOut.of(entity, image=_address(entity.id, self._index.image_path(row)), fields=fields)

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity; `None` if it is not in the index, or not in what the caller may see."""
        row = self._index.row_of(entity_id)
        return None if row is None or not fits(self._index.entity(row), SCOPE.get()) else row

    def entity(self, row: int) -> EntityOut:
        """Returns an entity."""
        entity = self._index.entity(row)
        return EntityOut.of(entity, image=_address(entity.id, self._index.image_path(row)))

    def image(self, entity_id: str, version: str) -> Path | bytes | None:
        """Returns the copy of an image of an entity; `None` if the entity was removed or has other images now."""
        row = self.row_of(entity_id)
        stored = () if row is None else (self._index.image_path(row), *self._index.thumbnails(row).values())
        return next((one for one in stored if one is not None and _version_of(one) == version), None)

    def retrieved(self, found: Retrieval, most: int, **more: Any) -> RetrieveOut:
        """Returns the response to a retrieval with the best sections, at most `most`; `more` are its other fields."""
        entity = self.entity(found.candidates[0].row) if found.candidates else None
        return RetrieveOut.of(
            found,
            entity=entity,
            evidence=[
                EvidenceOut.of(
                    one,
                    entity=entity,
                    section=one.title,
                    section_index=one.index,
                    scores=one,
                    images=[
                        ImageOut.of(image, image=_address(entity.id, found.thumbnails.get(image.url)))
                        for image in one.images
                    ],
                )
                for one in found.sections[:most]
                if entity is not None
            ],
            candidates=[
                CandidateOut.of(one, entity_id=one.entity, image=_address(one.entity, one.image))
                for one in found.candidates
            ],
            index=self.about(),
            **more,
        )


def entity_at(address: str) -> str | None:
    """Returns the id of the entity whose image has an address, "" if it names none; `None` for anything else."""
    match = _ADDRESS.fullmatch(address)
    return unquote(match[1] or "") if match else None


def _address(entity_id: str, image: Path | bytes | None) -> str | None:
    """Returns the path of an image on this service, by its entity and content: rows are another entity's later."""
    version = None if image is None else _version_of(image)
    return None if version is None else f"/entities/{version}/image?id={quote(entity_id, safe='')}"


def _version_of(path: Path | bytes) -> str | None:
    """Returns a digest of an image; `None` if the file is not there any more."""
    if isinstance(path, bytes):
        return hashlib.sha256(path).hexdigest()[:16]
    try:
        status = path.stat()
        return _digest_of(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except (FileNotFoundError, NotADirectoryError):
        return None


@lru_cache(maxsize=20_000)
def _digest_of(path: Path, *_changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
