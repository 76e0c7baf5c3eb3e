"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from indexes.growing import GrowingArray
from indexes.lines import Articles, Lines
from indexes.manifest import Candidates
from indexes.sources import ImageSource
from indexes.stages import MainImages, finite, load_main, readable_rows
from indexes.workers import Workers, in_batches
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
    main_images: MainImages,
    source: ImageSource | None,
    workers: Workers,
    folder: Path,
    batch: int,
    progress: bool,
) -> Keys:
    """Returns the keys of all entities, rounded to float16, memory-mapped from files that it writes to `folder`.

    With "image", an entity without a readable main image has no key; with "combined", its summary stands for it.
    """
    shown = readable_rows(main_images)
    if candidates == "image":
        return Keys((_embed_images(main_images, source, workers, folder, batch, progress),), shown)
    everything = np.arange(len(articles), dtype=np.int64)
    texts = _embed_texts(len(articles), candidates, workers, folder, batch, progress)
    if candidates != "combined":
        return Keys((texts,), everything)
    images = _embed_images(main_images, source, workers, folder, batch, progress)
    hidden = np.setdiff1d(everything, shown)
    for start in range(0, len(hidden), 65536):
        part = hidden[start : start + 65536]
        images[part] = texts[part]
    return Keys((images, texts), everything)


def _embed_texts(
    entities: int, candidates: Candidates, workers: Workers, folder: Path, batch: int, progress: bool
) -> NDArray[np.float16]:
    array = GrowingArray(folder / "text_keys.npy", (entities, workers.encoder.dimension), np.float16)
    make, left = partial(EncodeTexts, folder, candidates), range(array.done, entities)
    with closing(in_batches("embed texts", workers, make, "encoder", left, batch, progress)) as done:
        for rows, vectors in done:
            array.values[rows.start : rows.stop] = vectors
            array.commit(rows.stop)
    return array.values


def _embed_images(
    main_images: MainImages,
    source: ImageSource | None,
    workers: Workers,
    folder: Path,
    batch: int,
    progress: bool,
) -> NDArray[np.float16]:
    array = GrowingArray(folder / "image_keys.npy", (len(main_images), workers.encoder.dimension), np.float16)
    make, left = partial(EncodeMainImages, folder, source), range(array.done, len(main_images))
    with closing(in_batches("embed images", workers, make, "encoder", left, batch, progress)) as done:
        for rows, vectors in done:
            array.values[[row for row in rows if main_images[row].readable]] = vectors
            array.commit(rows.stop)
    return array.values


class EncodeTexts:
    """Encodes the text that represents an entity in step 1; `encode` returns float32 [batch, dimension].

    Args:
        folder: The unfinished build, with the articles and summaries.
        candidates: What step 1 searches.
        encoder: Step 1's model.
    """

    def __init__(self, folder: Path, candidates: Candidates, encoder: DualEncoder) -> None:
        self._articles, self._summaries = Articles(folder / "entities.jsonl"), Lines(folder / "summaries.jsonl")
        self._candidates, self._encoder = candidates, encoder

    def read(self, row: int) -> str:
        """Returns the text."""
        return candidate_text(self._articles[row], self._summaries.read(row)["summary"], self._candidates)

    def encode(self, items: Sequence[str]) -> NDArray[Any]:
        """Returns the vectors of texts."""
        return finite(self._encoder.encode_texts(items), "encoder")


class EncodeMainImages:
    """Encodes main images; `encode` returns those of readable ones, float32 [readable, dimension].

    Args:
        folder: The unfinished build, with what was found out about the main images.
        source: Where the images are.
        encoder: Step 1's model.
    """

    def __init__(self, folder: Path, source: ImageSource | None, encoder: DualEncoder) -> None:
        self._images, self._source, self._encoder = MainImages(folder / "main_images.jsonl"), source, encoder

    def read(self, row: int) -> Image.Image | None:
        """Returns the image, decoded."""
        return load_main(self._images[row], self._source)

    def encode(self, items: Sequence[Image.Image | None]) -> NDArray[Any]:
        """Returns the vectors of images."""
        shown = [image for image in items if image is not None]
        return (
            finite(self._encoder.encode_images(shown), "encoder") if shown else np.empty((0, self._encoder.dimension))
        )


def candidate_text(entity: Entity, summary: str, candidates: Candidates) -> str:
    """Returns the text that represents an entity in step 1; its title if the summary is blank."""
    if candidates == "article":
        return "\n".join([entity.title, *(f"{section.title}\n{section.text}" for section in entity.sections)])
    return summary if candidates in ("summary", "combined") and summary.strip() else entity.title
