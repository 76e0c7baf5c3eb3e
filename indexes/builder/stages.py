"""What the stages of a build share: the articles, how to run, and how models read and write."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.article_images import ImageUse
from indexes.builder.given_vectors import GivenVectors
from indexes.ids import hash_id, other_ids, save_ids
from indexes.lines import Articles, offsets_path, save_offsets, to_row
from indexes.store.manifest import Candidates
from indexes.workers import Workers
from retriever.files import write_lines
from retriever.texts import blip_caption, section_passage
from retriever.token_codec import TokenCodec
from retriever.types import Entity

ARTICLE_FILES = ("entities.jsonl", "entities.offsets.npy", "entity_ids.npy", "reading.json")
"""The files written while reading the knowledge base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRun:
    """What the stages that run models share.

    Attributes:
        folder: The unfinished build.
        workers: Run the models.
        candidates: What step 1 searches.
        use: Which images of an entity are used.
        codec: How tokens are stored.
        batch: Entities per batch.
        vectors: The vectors of summaries, if another system computed them.
    """

    folder: Path
    workers: Workers
    candidates: Candidates
    use: ImageUse
    codec: TokenCodec
    batch: int
    vectors: GivenVectors | None = None


def write_articles(entities: Iterable[Entity], folder: Path) -> Articles:
    """Writes `entities.jsonl`, unless an earlier run has done so, and returns its entities."""
    path = folder / "entities.jsonl"
    if not offsets_path(path).exists():
        hashes, others = array("q"), array("q")

        def rows() -> Iterator[dict[str, Any]]:
            for entity in entities:
                for other in other_ids(entity):
                    others.extend((hash_id(other), len(hashes)))
                hashes.append(hash_id(entity.id))
                yield to_row(entity)

        write_lines(path, rows())
        save_ids(folder / "entity_ids.npy", np.array(hashes, np.int64), np.array(others, np.int64).reshape(-1, 2))
        save_offsets(path)
    return Articles(path)


def section_texts(entity: Entity) -> list[str]:
    """Returns the text of each section as the fusion encoder reads it."""
    return [blip_caption(section_passage(entity.title, section.title, section.text)) for section in entity.sections]


def finite(values: torch.Tensor) -> NDArray[Any]:
    """Returns the encoder's output as an array.

    Raises:
        ValueError: A value is not finite.
    """
    found: NDArray[Any] = values.cpu().numpy()
    if not np.isfinite(found).all():
        raise ValueError("the encoder returned values that are not finite; check its weights")
    return found
