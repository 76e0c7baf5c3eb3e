"""The column of an index with small copies of the images of articles that have several, to be shown with sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from indexes.image_source import main_candidates, thumbnail
from indexes.store.columns import MAIN, Column, Encoded, Stored, picture_part
from retriever.types import LABELED

_SIDE, _QUALITY = 512, 85  # figures and screenshots stay legible
_WIDTH = 256
"""Bytes of a copy per row."""


class ThumbnailModel:
    """The column's model: which copies are made."""

    dimension, fingerprint = _WIDTH, f"jpeg-{_SIDE}-{_QUALITY}"


def _encode(model: ThumbnailModel, items: Sequence[Stored]) -> list[Encoded]:
    return [_encoded(item) for item in items]


def _encoded(item: Stored) -> Encoded:
    contents = dict[int, bytes]()
    if len([*main_candidates(item.entity)]) >= THUMBNAILS.least:
        labeled = {picture_part(image.url) for image in item.entity.images if image.url.startswith(LABELED)}
        pictures = {item.main if part == MAIN else part: image for part, image in item.pictures.items()}
        kept = {item.main: item.thumbnail} if item.thumbnail else {}  # a main image that stays in a changed article
        contents = kept | {part: thumbnail(image, _SIDE, _QUALITY) for part, image in pictures.items()}
        contents = {part: contents[part] for part in sorted(contents.keys() - labeled - {MAIN})}
    padded = b"".join(content + bytes(-len(content) % _WIDTH) for content in contents.values())
    lengths = [-(-len(content) // _WIDTH) for content in contents.values()]
    values = np.frombuffer(padded, np.uint8).reshape(-1, _WIDTH)
    return Encoded(values, np.repeat(np.array([*contents], np.int64), np.array(lengths, np.int64)))


def _search(index: Any, model: ThumbnailModel | None) -> Callable[[int], Mapping[str, bytes]]:
    """Returns a function from an entity's row to copies of its images, JPEG bytes by URL."""

    def thumbnails(row: int) -> Mapping[str, bytes]:
        urls = [*main_candidates(index.entity(row))]
        if len(urls) < THUMBNAILS.least:  # of several images, another one may stand in for a missing main image
            path = index.image_path(row)
            return {} if path is None else dict.fromkeys(urls, path.read_bytes())
        encoded, found = index.column(THUMBNAILS.name, row), dict[str, bytes]()
        for url in urls if encoded is not None else ():
            rows = encoded.values[slice(*np.searchsorted(encoded.parts, [picture_part(url), picture_part(url) + 1]))]
            if len(rows):
                found[url] = rows.tobytes().rstrip(b"\0")  # a JPEG ends with another byte
        return found

    return thumbnails


def _open(profile: Any) -> ThumbnailModel | None:
    return ThumbnailModel() if profile.search.image_keys > 1 else None


THUMBNAILS = Column(
    "thumbnails", "pictures", np.uint8, _encode, ("thumbnails.npy", "thumbnails_of.npy"), _open, search=_search, least=2
)
