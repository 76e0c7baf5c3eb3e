"""Keys: the vectors by which step 1 finds an entity."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.article_images import FurtherTable
from indexes.growing import GrowingArray
from indexes.lines import Articles, Lines
from indexes.manifest import OWNERS, Candidates, Manifest
from indexes.sources import ImageSource
from indexes.stages import MainImages, batches, decoded, finite, readable_rows
from retriever.protocols import DualEncoder
from retriever.types import Entity, FloatArray, IntArray

IMAGE_WEIGHT = 0.5
"""Weight of the main image in a combined key, unless a profile sets another."""


_NONE: IntArray = np.empty(0, np.int64)


class Keys(NamedTuple):
    """Keys of entities: key `row` is the first one of the entity at `row`, then come the further keys of all entities.

    Attributes:
        parts: Arrays float32 or float16 [N + F, dimension]; a key is its rows of all of them side by side.
        rows: The keys that there are, int64 [M]; an entity may have none.
        owners: The entities of the further keys, ascending, int64 [F].
    """

    parts: tuple[NDArray[Any], ...]
    rows: IntArray
    owners: IntArray = _NONE

    @property
    def entities(self) -> int:
        """Number of entities, with a key or without."""
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
        """Returns the keys of `rows`, float32 [len(rows), length]."""
        return np.concatenate([part[rows] for part in self.parts], axis=1, dtype=np.float32)


def load_owners(folder: Path, manifest: Manifest) -> IntArray:
    """Returns the entity of each further key of an index, ascending, int64 [F]."""
    return np.load(folder / OWNERS, allow_pickle=False) if manifest.counts.further_keys else _NONE


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
    further: FurtherTable | None = None,
) -> Keys:
    """Returns the keys of all entities, rounded to float16, memory-mapped from files that it writes to `folder`.

    With "image", an entity without a readable main image has no key; with "combined", its summary stands for it. Each
    further image is one more key, with "combined" beside the same summary.
    """
    shown, count = readable_rows(main_images), len(articles)
    further = further or FurtherTable()
    owners = further.owners() if candidates in ("image", "combined") else _NONE
    more = np.arange(count, count + len(owners), dtype=np.int64)
    if candidates == "image":
        images = _embed_images(main_images, further, owners, source, encoder, folder, batch, progress)
        return Keys((images,), np.concatenate([shown, more]), owners)
    everything = np.arange(count, dtype=np.int64)
    texts = _embed_texts(articles, summaries, candidates, len(owners), encoder, folder, batch, progress)
    if candidates != "combined":
        return Keys((texts,), everything)
    images = _embed_images(main_images, further, owners, source, encoder, folder, batch, progress)
    _copy(texts, np.setdiff1d(everything, shown), images, np.setdiff1d(everything, shown))
    _copy(texts, owners, texts, more)
    return Keys((images, texts), np.concatenate([everything, more]), owners)


def _copy(source: NDArray[Any], rows: IntArray, target: NDArray[Any], places: IntArray) -> None:
    for start in range(0, len(rows), 65536):
        part = slice(start, start + 65536)
        target[places[part]] = source[rows[part]]


def _embed_texts(
    articles: Articles,
    summaries: Lines,
    candidates: Candidates,
    spare: int,
    encoder: DualEncoder,
    folder: Path,
    batch: int,
    progress: bool,
) -> NDArray[np.float16]:
    """Returns the vectors of all texts, and room for `spare` more."""
    array = GrowingArray(folder / "text_keys.npy", (len(articles) + spare, encoder.dimension), np.float16)
    for rows in batches("embed texts", array.done, len(articles), batch, progress):
        texts = [candidate_text(articles[row], summaries.read(row)["summary"], candidates) for row in rows]
        array.values[rows.start : rows.stop] = finite(encoder.encode_texts(texts), "encoder")
        array.commit(rows.stop)
    return array.values


def _embed_images(
    main_images: MainImages,
    further: FurtherTable,
    owners: IntArray,
    source: ImageSource | None,
    encoder: DualEncoder,
    folder: Path,
    batch: int,
    progress: bool,
) -> NDArray[np.float16]:
    entities, total = len(main_images), len(main_images) + len(owners)

    def name_of(key: int) -> str | None:
        """Returns the image of a key, `None` if it has none that can be read."""
        if key < entities:
            main = main_images[key]
            return main.path if main.readable else None
        owner = int(owners[key - entities])
        return further[owner].keys[key - entities - int(np.searchsorted(owners, owner))]

    array = GrowingArray(folder / "image_keys.npy", (total, encoder.dimension), np.float16)
    names = (name for name in map(name_of, range(array.done, total)) if name is not None)
    with closing(decoded(names, source, batch)) as images:
        for keys in batches("embed images", array.done, total, batch, progress):
            shown = [key for key in keys if name_of(key) is not None]
            if shown:
                array.values[shown] = finite(encoder.encode_images(list(islice(images, len(shown)))), "encoder")
            array.commit(keys.stop)
    return array.values


def candidate_text(entity: Entity, summary: str, candidates: Candidates) -> str:
    """Returns the text that represents an entity in step 1; its title if the summary is blank."""
    if candidates == "article":
        return "\n".join([entity.title, *(f"{section.title}\n{section.text}" for section in entity.sections)])
    return summary if candidates in ("summary", "combined") and summary.strip() else entity.title
