"""The build stage that encodes sections for step 3."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from indexes.builder.stages import BuildRun
from indexes.lines import Articles
from indexes.store.section_files import EncodedSections, SectionFiles, no_vectors
from indexes.workers import in_batches
from retriever.protocols import SectionEncoder
from retriever.texts import section_passage
from retriever.types import Entity


def encode_sections(encoder: SectionEncoder, entities: Sequence[Entity]) -> list[EncodedSections]:
    """Encodes the sections of entities."""
    passages = [
        section_passage(entity.title, section.title, section.text) for entity in entities for section in entity.sections
    ]
    windows = iter(encoder.encode_passages(passages) if passages else ())
    encoded = []
    for entity in entities:
        own = [next(windows) for _ in entity.sections]
        positions = np.repeat(np.arange(len(own)), [len(one) for one in own]).astype(np.int64)
        none = no_vectors(encoder.dimension)
        encoded.append(EncodedSections(np.concatenate(own), positions) if own else none)
    return encoded


def write_section_vectors(run: BuildRun, articles: Articles, encoder: SectionEncoder) -> int:
    """Writes the files of section vectors, and returns the number of windows; a killed run resumes at a batch."""
    with SectionFiles(run.folder, encoder.dimension) as files:
        left = range(files.resume(run.batch), len(articles))
        make = partial(EncodeSections, articles.path)
        results = in_batches("sections", run.workers, make, ["sections"], left, run.batch)
        with closing(results):
            for rows, encoded in results:
                files.append(rows, encoded)
        return files.finish()


class EncodeSections:
    """Reads the articles of a batch and encodes their sections.

    Args:
        articles: The file of articles.
        sections: The encoder.
    """

    def __init__(self, articles: Path, *, sections: SectionEncoder) -> None:
        self._articles, self._encoder = Articles(articles), sections

    def read(self, row: int) -> Entity:
        """Returns an article."""
        return self._articles[row]

    def encode(self, items: Sequence[Entity]) -> list[EncodedSections]:
        """Encodes the sections of a batch."""
        return encode_sections(self._encoder, items)
