"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.growing import GrowingArray
from indexes.lines import Articles, Lines
from indexes.manifest import Candidates
from indexes.sources import ImageSource
from indexes.stages import MainImages, batches, decoded, finite, readable_rows
from retriever.protocols import DualEncoder
from retriever.types import Entity, FloatArray, IntArray

IMAGE_WEIGHT = 0.5
"""Weight of the main image in a combined key, unless a profile sets another."""


class Keys(NamedTuple):
    """Keys of entities by row.

    Attributes:
        parts: Arrays float32 or float16 [N, dimension]; an entity's key is its rows of all of them side by side.
        rows: The entities that have a key, int64 [M].
    """

    parts: tuple[NDArray[Any], ...]
    rows: IntArray

    @property
    def entities(self) -> int:
        """Number of entities, with a key or without."""
        return len(self.parts[0])

    @property
    def length(self) -> int:
        """Length of a key."""
        return sum(part.shape[1] for part in self.parts)

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the keys of `rows`, float32 [len(rows), length]."""
        return np.concatenate([part[rows] for part in self.parts], axis=1, dtype=np.float32)


def as_query(vectors: torch.Tensor, candidates: Candidates, image_weight: float) -> torch.Tensor:
    """Returns the queries [B, length of a key] whose inner products with keys are the scores of step 1.

    For combined keys a score is `image_weight` times the similarity to the main image plus the rest times the
    similarity to the summary, so the weight can change without a new index.
    """
    if candidates != "combined":
        return vectors
    return torch.cat([image_weight * vectors, (1 - image_weight) * vectors], dim=1)


def write_keys(
    candidates: Candidates,
    articles: Articles,
    summaries: Lines,
    main_images: MainImages,
    source: ImageSource | None,
    encoder: DualEncoder,
    folder: Path,
    batch: int,
    progress: bool,
) -> Keys:
    """Returns the keys of all entities, rounded to float16, memory-mapped from files that it writes to `folder`.

    With "image", an entity without a readable main image has no key; with "combined", its summary stands for it.
    """
    shown = readable_rows(main_images)
    if candidates == "image":
        return Keys((_embed_images(main_images, source, encoder, folder, batch, progress),), shown)
    everything = np.arange(len(articles), dtype=np.int64)
    texts = _embed_texts(articles, summaries, candidates, encoder, folder, batch, progress)
    if candidates != "combined":
        return Keys((texts,), everything)
    images = _embed_images(main_images, source, encoder, folder, batch, progress)
    hidden = np.setdiff1d(everything, shown)
    for start in range(0, len(hidden), 65536):
        part = hidden[start : start + 65536]
        images[part] = texts[part]
    return Keys((images, texts), everything)


def _embed_texts(
    articles: Articles,
    summaries: Lines,
    candidates: Candidates,
    encoder: DualEncoder,
    folder: Path,
    batch: int,
    progress: bool,
) -> NDArray[np.float16]:
    array = GrowingArray(folder / "text_keys.npy", (len(articles), encoder.dimension), np.float16)
    for rows in batches("embed texts", array.done, len(articles), batch, progress):
        texts = [candidate_text(articles[row], summaries.read(row)["summary"], candidates) for row in rows]
        array.values[rows.start : rows.stop] = finite(encoder.encode_texts(texts), "encoder")
        array.commit(rows.stop)
    return array.values


def _embed_images(
    main_images: MainImages,
    source: ImageSource | None,
    encoder: DualEncoder,
    folder: Path,
    batch: int,
    progress: bool,
) -> NDArray[np.float16]:
    array = GrowingArray(folder / "image_keys.npy", (len(main_images), encoder.dimension), np.float16)
    present = [row for row in range(array.done, len(main_images)) if main_images[row].readable]
    with closing(decoded(present, main_images, source, batch)) as images:
        for rows in batches("embed images", array.done, len(main_images), batch, progress):
            shown = [row for row in rows if main_images[row].readable]
            if shown:
                array.values[shown] = finite(encoder.encode_images(list(islice(images, len(shown)))), "encoder")
            array.commit(rows.stop)
    return array.values


def candidate_text(entity: Entity, summary: str, candidates: Candidates) -> str:
    """Returns the text that represents an entity in step 1; its title if the summary is blank."""
    if candidates == "article":
        return "\n".join([entity.title, *(f"{section.title}\n{section.text}" for section in entity.sections)])
    return summary if candidates in ("summary", "combined") and summary.strip() else entity.title
