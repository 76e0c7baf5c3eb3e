"""The data for adapting step 1: what its training reads from an index, and batches of it."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from indexes.image_copies import KnownImages
from indexes.image_source import ImageSource
from indexes.labeled_images import LabeledImage, with_known_entities
from indexes.store.article_store import ArticleImages, ArticleStore
from retriever.identity import short_hash
from retriever.types import IntArray
from training.augment import SLIGHT, vary
from training.batch import Batch, Targets
from training.copies import originals, text_hash
from training.images import ImageLoader, StoredImages

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderData:
    """The data that step 1 is adapted to: the articles of an index, and what its entities look like.

    Attributes:
        index: The articles, and the summaries that step 1 will search.
        originals: Where their images are; without it, the index's thumbnails are trained on.
        labeled: Images beyond the main images, such as those of questions.
        trim_borders: Whether uniform borders are cut off labeled images, as off query images.
        contents: A name for the content of each labeled image, by its id, the same for copies, which are held out
            together (`indexes.image_copies.content_names`); by default the id.
    """

    index: ArticleStore
    originals: ImageSource | None = None
    labeled: Sequence[LabeledImage] = ()
    trim_borders: bool = False
    contents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entities:
    """The entities of an index, by row.

    Attributes:
        summaries: Their summaries, [E].
        ids: Hashes of their ids, uint64 [E].
        articles: Hashes of their articles, uint64 [E].
        original: The first entity with the text of each entity's article, int64 [E].
        pictured: The first entity whose main image is a copy of each entity's, or the entity itself, int64 [E].
        main: The main images that exist.
        row_of: The rows of the entities that labeled images name.
    """

    summaries: list[str]
    ids: array[int]
    articles: array[int]
    original: IntArray
    pictured: IntArray
    main: dict[int, ImageLoader]
    row_of: dict[str, int]

    @property
    def copies(self) -> int:
        """The number of entities whose article is that of an entity before them."""
        return int((self.original != np.arange(len(self.original))).sum())


class Label(NamedTuple):
    """A labeled image with the entities that it shows, of which copies count as one.

    Attributes:
        image_id: The image's id.
        path: Its file.
        rows: The entities, at least one.
    """

    image_id: str
    path: Path
    rows: list[int]


def known_labels(data: EncoderData, entities: Entities) -> list[Label]:
    """Returns the labeled images of entities in the index, and logs how many others there are.

    Raises:
        ValueError: There are labeled images, but none can be used.
    """
    named = with_known_entities(data.labeled, entities.row_of)
    labels: dict[str, Label] = {}
    for image in named:
        if (row := entities.row_of.get(image.entity_id)) is not None:
            rows = labels.setdefault(image.image_id, Label(image.image_id, image.path, [])).rows
            if (original := int(entities.original[row])) not in rows:
                rows.append(original)
    unknown = [image.entity_id for image in named if image.entity_id not in entities.row_of]
    if unknown:
        reason = f"{data.index.folder} has no entity that they show, the first is {min(unknown)!r}"
        if not labels:
            raise ValueError(f"none of the labeled images can be used: {reason}; is it the right index?")
        logger.warning("%d of %d labeled images left out: %s", len(unknown), len(named), reason)
    return list(labels.values())


def read_entities(data: EncoderData) -> Entities:
    """Reads the articles of the index, holding one in memory at a time.

    Raises:
        ValueError: No entity has an image.
    """
    images, index = ArticleImages(data.index, data.originals), data.index
    main, summaries = dict[int, ImageLoader](), list[str]()
    ids, articles, texts = array("Q"), array("Q"), array("Q")
    for row in range(len(index)):
        entity = index.entity(row)
        summaries.append(index.summary(row))
        ids.append(short_hash(entity.id))
        articles.append(short_hash([entity.title, *([section.title, section.text] for section in entity.sections)]))
        texts.append(text_hash(entity))
        if (name := images.main(row)) is not None:
            main[row] = ImageLoader(name, images.load, images.content)
    if not main:
        raise ValueError(f"{index.folder}: has none of the main images that its articles name; build it with --images")
    names = (id for image in data.labeled for id in (image.entity_id, *image.others))
    known = {id: at for id in dict.fromkeys(names) if (at := index.row_of(id)) is not None}
    return Entities(summaries, ids, articles, originals(texts), _pictured(main, len(summaries)), main, known)


def _pictured(main: Mapping[int, ImageLoader], count: int) -> IntArray:
    pictured = np.arange(count)
    if len(main) <= MOST_COMPARED:
        names = KnownImages.of({str(row): load.content(load.name) for row, load in main.items()}).names()
        first = dict[str, int]()
        for row in sorted(map(int, names)):
            pictured[row] = first.setdefault(names[str(row)], row)
    return pictured


IMAGES, TEXTS, MAIN = 112, 144, 64  # per batch: images, summaries, main images to find
MOST_COMPARED = 200_000
"""Most main images that are compared with one another; of more, copies hardly ever meet in a batch."""


@dataclass(frozen=True, slots=True)
class EncoderBatch(Batch):
    """The images and summaries of a step.

    Attributes:
        pixels: The images that search, then the main images to find, float32 [B + K, 3, size, size] in 0..1.
        ids: Token ids of the summaries, int64 [S, T], padded.
        mask: 1 for tokens and 0 for padding, int64 [S, T].
        summary: What each image should find among the summaries.
        main: What each image should find among the main images.
        searching: The number of images that search, B.
    """

    pixels: Tensor
    ids: Tensor
    mask: Tensor
    summary: Targets
    main: Targets
    searching: int


class EncoderBatches:
    """Makes the batch of a step, which depends only on (seed, step), in any thread.

    An image is drawn with a weight of 1 / sqrt(number of images of its entity), halfway between equal weights for
    images and equal weights for entities.

    Args:
        images: The images, main images first.
        rows: The entity of each image to train on; copies of an article are one entity.
        main_images: The number of main images.
        ids: Token ids of all summaries, int64 [E, T], padded.
        mask: Their mask, int64 [E, T].
        entities: The entities whose summaries are searched, without copies, int64.
        pictured: The first entity whose main image is a copy of each entity's: to find one is to find the other.
        size: Side of the model's input in pixels.
        seed: Seed of the batches.
    """

    def __init__(
        self,
        images: StoredImages,
        rows: Sequence[int],
        main_images: int,
        *,
        ids: Tensor,
        mask: Tensor,
        entities: Tensor,
        pictured: IntArray,
        size: int,
        seed: int,
    ):
        self.images, self.ids, self.mask, self.size, self.seed = images, ids, mask, size, seed
        self.entities, self.pictured = entities, pictured
        self.main_at = first_of_each([int(pictured[row]) for row in rows[:main_images]])
        count = torch.bincount(torch.tensor(rows), minlength=len(ids)).float()
        self.owners = torch.tensor(rows)
        self.weights = count[self.owners] ** -0.5

    def __call__(self, step: int) -> EncoderBatch:
        """Returns the batch of a step."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        chosen = torch.multinomial(self.weights, min(IMAGES, len(self.weights)), generator=generator)
        owners: list[int] = self.owners[chosen].tolist()
        texts = self._texts(chosen, generator)
        pixels = [vary(self.images[chosen], self.size, generator)]
        depicted: list[int] = self.pictured[owners].tolist()
        shown = [row for row in dict.fromkeys(depicted) if row in self.main_at][:MAIN]
        if shown:
            keys = self.images[[self.main_at[row] for row in shown]]
            pixels.append(vary(keys, self.size, generator, SLIGHT))
        return EncoderBatch(
            torch.cat(pixels),
            self.ids[texts],
            self.mask[texts],
            targets_among(texts.tolist(), owners),
            targets_among(shown, depicted),
            len(chosen),
        )

    def _texts(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        owners = self.owners[chosen].unique()
        others = self.entities[torch.randperm(len(self.entities), generator=generator)]
        others = others[~torch.isin(others, owners)][: max(0, TEXTS - len(owners))]
        return torch.cat([owners, others])


def first_of_each(rows: Sequence[int]) -> dict[int, int]:
    """Returns the number of each entity's first image, given the entity of each image."""
    first: dict[int, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row, number)
    return first


def targets_among(keys: Sequence[int], owners: Sequence[int]) -> Targets:
    """Maps each image to the key of its entity, which it should find; one whose entity has no key has no target.

    Args:
        keys: The entity of each key, all distinct.
        owners: The entity of each image.
    """
    place = {row: number for number, row in enumerate(keys)}
    return Targets.of(map(place.get, owners))
