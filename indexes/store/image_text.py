"""The column of an index with the text that stands on images: read once, shown to users, and searched by its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexes.store.columns import MAIN, SPREAD, Column, Encoded, Stored, TextSearch, picture_part
from indexes.store.word_search import FILES, WordSearch, write_words
from retriever.protocols import TextReader
from retriever.texts import joined
from retriever.types import Entity, IntArray, TextLine

WIDTH = 32
"""Bytes of text per row."""
_LONGEST = 2000
"""Characters of text that are kept of an image."""


def _encode(reader: TextReader, items: Sequence[Stored]) -> list[Encoded]:
    parts = [(number, part, image) for number, item in enumerate(items) for part, image in item.pictures.items()]
    read = reader.read([image for *_, image in parts]) if parts else []
    texts: list[dict[int, str]] = [{} for _ in items]
    for (number, part, _), lines in zip(parts, read, strict=True):
        texts[number][part] = joined(lines)[:_LONGEST]
    return [encode_texts(own) for own in texts]


def encode_texts(texts: Mapping[int, str]) -> Encoded:
    """Returns the rows of an entity's texts, by their parts; an empty text has none."""
    rows, parts = [np.empty((0, WIDTH), np.uint8)], list[int]()
    for part, text in sorted(texts.items()):
        content = text.encode("utf-8", "replace")
        padded = content.ljust(-(-len(content) // WIDTH) * WIDTH, b"\0")
        rows.append(np.frombuffer(padded, np.uint8).reshape(-1, WIDTH))
        parts += [part] * len(rows[-1])
    return Encoded(np.concatenate(rows), np.array(parts, np.int64))


def decode_texts(encoded: Encoded) -> dict[int, str]:
    """Returns the texts of an entity's images, by their parts."""
    found = dict[int, bytes]()
    for part, row in zip(encoded.parts.tolist(), encoded.values, strict=True):
        found[part] = found.get(part, b"") + row.tobytes()
    return {part: content.rstrip(b"\0").decode("utf-8") for part, content in found.items()}


def texts_of(entity: Entity, encoded: Encoded) -> list[str]:
    """Returns the texts of an entity's images, in the order of these."""
    texts = decode_texts(encoded)
    order = dict.fromkeys([MAIN, *(picture_part(image.url) for image in entity.images)])
    return [texts[part] for part in [*order, *(texts.keys() - order)] if part in texts]


def documents_of(row: int, entity: Entity, encoded: Encoded) -> Iterator[tuple[int, str]]:
    """Yields an entity's row with each text that stands on it or may: those on its images, and its names."""
    for text in dict.fromkeys([*texts_of(entity, encoded), entity.title, *entity.names]):
        yield row, text


def _finish(folder: Path, articles: Sequence[Entity]) -> None:
    values, keys = _stored(folder)

    def documents() -> Iterator[tuple[int, str]]:
        bounds = np.searchsorted(keys, np.arange(len(articles) + 1) * SPREAD)
        for row, entity in enumerate(articles):
            own = slice(bounds[row], bounds[row + 1])
            yield from documents_of(row, entity, Encoded(values[own], keys[own] - row * SPREAD))

    write_words(folder, documents())


def _stored(folder: Path) -> tuple[NDArray[np.uint8], IntArray]:
    values, keys = (np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in IMAGE_TEXT.files[:2])
    return values, keys


class ImageTextSearch:
    """Finds entities by the words on their images and in their names.

    Args:
        words: The search by words.
    """

    def __init__(self, words: WordSearch) -> None:
        self.similar = words.similar
        self._words = words

    @classmethod
    def open(cls, folder: Path) -> TextSearch:
        """Opens what a build wrote."""
        return cls(WordSearch.open(folder))

    def of(self, entities: Iterable[tuple[int, Entity, Encoded]]) -> TextSearch:
        """Returns a search of other entities, with the weights of words in this one."""
        documents = (document for entry in entities for document in documents_of(*entry))
        return ImageTextSearch(self._words.with_weights(documents))


def _report(folder: Path) -> dict[str, Any]:
    keys = np.unique(_stored(folder)[1])
    return {"image_text": {"images": len(keys), "entities": len(np.unique(keys // SPREAD))}}


class ReaderModel:
    """The column's model: a reader that is loaded when it is first used."""

    dimension = WIDTH

    @cached_property
    def _reader(self) -> TextReader:
        from retriever.models.ocr import OCR  # loads its networks

        return OCR.load()

    @property
    def fingerprint(self) -> str:
        """A hash of weights and settings."""
        return self._reader.fingerprint

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        """Returns the lines of text in each image, from top to bottom."""
        return self._reader.read(images)


def _open(profile: Any) -> ReaderModel | None:
    return ReaderModel() if profile.search.words else None


IMAGE_TEXT = Column(
    "image_text",
    "pictures",
    np.uint8,
    _encode,
    ("image_text.npy", "image_text_of.npy", *FILES),
    _open,
    _finish,
    ImageTextSearch.open,
    _report,
)
