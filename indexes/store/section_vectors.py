"""The column of an index that step 3 compares questions with: the vectors of sections, in windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexes.store.columns import Column, Encoded, Stored
from retriever.protocols import SectionEncoder
from retriever.texts import section_passage


def _encode(encoder: SectionEncoder, items: Sequence[Stored]) -> list[Encoded]:
    entities = [item.entity for item in items]
    passages = [
        section_passage(entity.title, section.title, section.text) for entity in entities for section in entity.sections
    ]
    windows = iter(encoder.encode_passages(passages) if passages else ())
    encoded = []
    for entity in entities:
        vectors = [next(windows) for _ in entity.sections]
        positions = np.repeat(np.arange(len(vectors)), [len(section) for section in vectors]).astype(np.int64)
        nothing = SECTION_VECTORS.nothing(encoder.dimension)
        encoded.append(Encoded(np.concatenate(vectors), positions) if vectors else nothing)
    return encoded


SECTION_VECTORS = Column("sections", "sections", np.int8, _encode, ("section_vectors.npy", "section_windows.npy"))
