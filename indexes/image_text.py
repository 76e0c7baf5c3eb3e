"""The column of an index with the text that stands on images: read once, shown to users, and searched by its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from indexes.ahead import map_ahead
from indexes.store import image_text
from indexes.store.columns import SPREAD, Column, Encoded, Stored
from indexes.store.image_text import WIDTH, documents_of, encode_texts
from indexes.store.word_search import FILES, write_words
from retriever.arrays import map_array
from retriever.label_reading import joined
from retriever.protocols import TextReader
from retriever.types import Entity, IntArray

if TYPE_CHECKING:
    from retriever.label_reading import LabelReading

_LONGEST = 2000
"""Characters of text that are kept of an image."""


def _encode(reader: TextReader, items: Sequence[Stored]) -> list[Encoded]:
    parts = [(number, part, image) for number, item in enumerate(items) for part, image in item.pictures.items()]
    # A reader has one thread per image.
    read = map_ahead(lambda image: reader.read([image])[0], [image for *_, image in parts], len(parts))
    texts: list[dict[int, str]] = [{} for _ in items]
    for (number, part, _), lines in zip(parts, read, strict=True):
        texts[number][part] = joined(lines)[:_LONGEST]
    return [encode_texts(own) for own in texts]


def _finish(folder: Path, articles: Sequence[Entity]) -> None:
    values, keys = _stored(folder)

    def documents() -> Iterator[tuple[int, str]]:
        bounds = np.searchsorted(keys, np.arange(len(articles) + 1) * SPREAD)
        for row, entity in enumerate(articles):
            own = slice(bounds[row], bounds[row + 1])
            yield from documents_of(row, entity, Encoded(values[own], keys[own] - row * SPREAD))

    write_words(folder, documents())


def _stored(folder: Path) -> tuple[NDArray[np.uint8], IntArray]:
    values, keys = (map_array(folder / name) for name in IMAGE_TEXT.files[:2])
    return values, keys


def _search(index: Any, reader: TextReader) -> LabelReading:
    from indexes.live.image_text import IndexText
    from retriever.label_reading import LabelReading

    return LabelReading(getattr(index, "texts", None) or IndexText(index), reader)


def _report(folder: Path) -> dict[str, Any]:
    keys = np.unique(_stored(folder)[1])
    return {image_text.IMAGE_TEXT: {"images": len(keys), "entities": len(np.unique(keys // SPREAD))}}


class ReaderModel:
    """The column's model: a reader of text, and the width of what is stored of it.

    Args:
        reader: The reader.
    """

    dimension = WIDTH

    def __init__(self, reader: TextReader) -> None:
        self.fingerprint, self.read = reader.fingerprint, reader.read


def _open(profile: Any) -> ReaderModel | None:
    if not profile.search.words:
        return None
    from retriever.models.ocr import OCR

    return ReaderModel(OCR.load())


IMAGE_TEXT = Column(
    image_text.IMAGE_TEXT,
    "pictures",
    np.uint8,
    _encode,
    ("image_text.npy", "image_text_of.npy", *FILES),
    _open,
    _finish,
    _search,
    _report,
)
