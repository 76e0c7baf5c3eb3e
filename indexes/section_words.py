"""The column of an index with the words of its sections, by which questions without an image are searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from indexes.store import section_words
from indexes.store.columns import Column, Encoded, Stored
from indexes.store.postings import write_postings
from indexes.store.section_words import LAYOUT, documents_of
from retriever.types import Entity


class WordsModel:
    """The column's model: how texts are split into terms. Its rows are none, as all that is stored is for searching."""

    dimension = 1
    fingerprint = section_words.FINGERPRINT


def _encode(model: WordsModel, items: Sequence[Stored]) -> list[Encoded]:
    return [SECTION_WORDS.nothing(model.dimension) for _ in items]


def _finish(folder: Path, articles: Sequence[Entity]) -> None:
    def documents() -> Iterator[tuple[int, str]]:
        for row, entity in enumerate(articles):
            yield from documents_of(row, entity)

    write_postings(folder, documents(), LAYOUT)


def _open(profile: Any) -> WordsModel:
    return WordsModel()


SECTION_WORDS = Column(
    section_words.SECTION_WORDS,
    "entities",
    np.uint8,
    _encode,
    ("section_words.npy", "section_words_of.npy", *LAYOUT.files),
    _open,
    _finish,
)
