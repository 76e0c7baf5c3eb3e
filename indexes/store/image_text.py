"""How the text on images is stored in an index, and what of it is searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from indexes.store.columns import MAIN, Encoded, picture_part
from retriever.types import Entity

IMAGE_TEXT = "image_text"
"""The name of the column (`indexes.image_text`)."""
WIDTH = 32
"""Bytes of text per row."""


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
    return [texts[part] for part in [*order, *sorted(texts.keys() - order)] if part in texts]


def documents_of(row: int, entity: Entity, encoded: Encoded) -> Iterator[tuple[int, str]]:
    """Yields an entity's row with each text that stands on it or may: those on its images, and its names."""
    for text in dict.fromkeys([*texts_of(entity, encoded), entity.title, *entity.names]):
        yield row, text
