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

from indexes.growing import GrowingArray, GrowingRows, release
from indexes.image_records import ImageRecords
from indexes.image_stage import FURTHER_KEYS, MAIN_KEYS
from indexes.lines import Articles, Lines
from indexes.manifest import OWNERS, Candidates, Manifest, keys_are_images
from indexes.stages import BuildRun, finite
from indexes.workers import in_batches
from retriever.protocols import DualEncoder
from retriever.types import Entity, FloatArray, IntArray

IMAGE_WEIGHT = 0.5
"""Weight of the main image in a combined key, unless a profile sets another."""


_NONE: IntArray = np.empty(0, np.int64)
_COPIED = 65536
"""Number of vectors to copy at a time."""


class Keys(NamedTuple):
    """The keys of entities: key `row` is the first key of the entity at `row`; all further keys follow.

    Attributes:
        parts: Arrays float32 or float16 [N + F, dimension]; a key is the concatenation of its rows in all of them.
        rows: The numbers of the keys that exist, int64 [M]; an entity may have none.
        owners: The entities of the further keys, ascending, int64 [F].
    """

    parts: tuple[NDArray[Any], ...]
    rows: IntArray
    owners: IntArray = _NONE

    @property
    def entities(self) -> int:
        """Number of entities, with or without a key."""
        return len(self.parts[0]) - len(self.owners)

    @property
    def searchable(self) -> int:
        """Number of entities that have a key."""
        return len(self.rows) - len(self.owners)

    @property
    def length(self) -> int:
        """Length of a key."""
        return sum(part.shape[1] for part in self.parts)

    def read(self, rows: IntArray) -> FloatArray:
        """Returns the keys with the numbers `rows`, float32 [len(rows), length]."""
        return np.concatenate([part[rows] for part in self.parts], axis=1, dtype=np.float32)


def load_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity of each further key of an index, ascending, int64 [F]."""
    return np.load(folder / OWNERS, allow_pickle=False) if manifest.counts.further_keys else _NONE


def as_query(vectors: torch.Tensor, candidates: Candidates, image_weight: float) -> torch.Tensor:
    """Returns the queries [B, length of a key] whose inner products with keys are the scores of step 1.

    For combined keys, a score is `image_weight` times the similarity to the main image plus `1 - image_weight` times
    the similarity to the summary, so the weight can change without rebuilding the index.
    """
    if candidates != "combined":
        return vectors
    return torch.cat([image_weight * vectors, (1 - image_weight) * vectors], dim=1)


def write_keys(run: BuildRun, images: ImageRecords) -> Keys:
    """Returns the keys of all entities, rounded to float16, memory-mapped from files of the unfinished build.

    Encodes texts; images have been encoded by `indexes.image_stage`.

    With "image", an entity without a readable main image has no key; with "combined", its summary takes the place of
    the image. Each further image is one more key, combined with the same summary for "combined".
    """
    shown, count = images.readable_rows(), len(images)
    owners = images.key_owners() if keys_are_images(run.candidates) else _NONE
    more = np.arange(count, count + len(owners), dtype=np.int64)
    if run.candidates == "image":
        return Keys((_image_vectors(run.folder, count),), np.concatenate([shown, more]), owners)
    everything = np.arange(count, dtype=np.int64)
    of_texts = _embed_texts(run, count, len(owners))
    if run.candidates != "combined":
        return Keys((of_texts,), everything)
    of_images = _image_vectors(run.folder, count)
    hidden = np.setdiff1d(everything, shown)
    _copy(of_texts, hidden, of_images, hidden)
    _copy(of_texts, owners, of_texts, more)
    return Keys((of_images, of_texts), np.concatenate([everything, more]), owners)


def _copy(source: NDArray[Any], rows: IntArray, target: NDArray[Any], places: IntArray) -> None:
    for start in range(0, len(rows), _COPIED):
        part = slice(start, start + _COPIED)
        target[places[part]] = source[rows[part]]


def _embed_texts(run: BuildRun, entities: int, spare: int) -> NDArray[np.float16]:
    """Returns the vectors of all texts, followed by space for `spare` more."""
    array = GrowingArray(run.folder / "text_keys.npy", (entities + spare, run.workers.encoder.dimension), np.float16)
    if run.vectors is not None:
        of_entity = run.vectors.rows_for(Articles(run.folder / "entities.jsonl"))
        for start in range(array.done, entities, _COPIED):
            part = of_entity[start : start + _COPIED]
            array.values[start : start + len(part)] = run.vectors.read(part)
            array.commit(start + len(part))
        return array.values
    make, left = partial(EncodeTexts, run.folder, run.candidates), range(array.done, entities)
    with closing(in_batches("embed texts", run.workers, make, ["encoder"], left, run.batch, run.progress)) as done:
        for rows, vectors in done:
            array.values[rows.start : rows.stop] = vectors
            array.commit(rows.stop)
    return array.values


def _image_vectors(folder: Path, entities: int) -> NDArray[np.float16]:
    """Appends the vectors of further images to the file of main images and returns all of them, memory-mapped."""
    path, further = folder / MAIN_KEYS, np.load(folder / FURTHER_KEYS, mmap_mode="r", allow_pickle=False)
    with GrowingRows(path, further.shape[1:], further.dtype) as file:
        file.cut(entities)
        for start in range(0, len(further), _COPIED):
            file.append(further[start : start + _COPIED])
            release(further)
        file.finish()
    vectors: NDArray[np.float16] = np.lib.format.open_memmap(path, mode="r+")
    return vectors


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
        """Returns the text that represents the entity at `row`."""
        return candidate_text(self._articles[row], self._summaries.read(row)["summary"], self._candidates)

    def encode(self, items: Sequence[str]) -> NDArray[Any]:
        """Returns the vectors of texts."""
        return finite(self._encoder.encode_texts(items))


def candidate_text(entity: Entity, summary: str, candidates: Candidates) -> str:
    """Returns the text that represents an entity in step 1; its title if the summary is blank."""
    if candidates == "article":
        return "\n".join([entity.title, *(f"{section.title}\n{section.text}" for section in entity.sections)])
    return summary if candidates in ("summary", "combined") and summary.strip() else entity.title
