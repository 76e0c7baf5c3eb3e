"""The build stage that writes the keys of step 1; encodes the texts among them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.builder.image_records import ImageRecords
from indexes.builder.image_stage import FURTHER_KEYS, MAIN_KEYS
from indexes.builder.stages import BuildRun, finite
from indexes.growing import GrowingArray, GrowingRows, release
from indexes.lines import Articles, Lines
from indexes.store.keys import NO_OWNERS, Keys
from indexes.store.manifest import Candidates, keys_are_images
from indexes.workers import in_batches
from retriever.arrays import map_array
from retriever.protocols import DualEncoder
from retriever.types import Entity, IntArray

_COPIED = 65536
"""Number of vectors to copy at a time."""


def write_keys(run: BuildRun, images: ImageRecords) -> Keys:
    """Returns the keys of all entities, rounded to float16, memory-mapped from files of the unfinished build.

    Encodes texts; images have been encoded by `indexes.builder.image_stage`.

    With "image", an entity without a readable main image has no key; with "combined", its summary takes the place of
    the image. Each further image is one more key, combined with the same summary for "combined".
    """
    shown, count = images.readable_rows(), len(images)
    owners = images.key_owners() if keys_are_images(run.candidates) else NO_OWNERS
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
    with closing(in_batches("embed texts", run.workers, make, ["encoder"], left, run.batch)) as done:
        for rows, vectors in done:
            array.values[rows.start : rows.stop] = vectors
            array.commit(rows.stop)
    return array.values


def _image_vectors(folder: Path, entities: int) -> NDArray[np.float16]:
    """Appends the vectors of further images to the file of main images and returns all of them, memory-mapped."""
    path, further = folder / MAIN_KEYS, map_array(folder / FURTHER_KEYS)
    with GrowingRows(path, further.shape[1:], further.dtype) as file:
        file.cut(entities)
        for start in range(0, len(further), _COPIED):
            file.append(further[start : start + _COPIED])
            release(further)
        file.finish()
    vectors: NDArray[np.float16] = map_array(path, "r+")
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
