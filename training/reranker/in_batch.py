"""Batches in which all questions share their candidates, for image towers that are small enough to be trained, too.

This is equation 6 with other negatives: the sections of the other questions in the batch, and another section of the
question's own article. Some questions in a batch are about entities that step 1 confuses with those of others, which
keeps the paper's hard negatives. A second softmax is over labeled images: another image of the question's entity among
those of the other entities, fused without text as in an index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.gpu import to_device
from retriever.models.precision import autocast
from retriever.models.qformer import QFormerFusion
from retriever.types import IntArray
from training.augment import SLIGHT, resized, vary
from training.batch import Batch, Targets
from training.reranker.batches import Order, Texts, padded
from training.reranker.image_store import FeatureStore
from training.reranker.rows import Rows
from training.reranker.samples import SampleSet

CONFUSED = 2
"""Most entities to add to a batch per drawn question because step 1 confuses them with the question's entity."""
_MAIN, _LABELED = 0.6, 0.5
"""Most candidates of each kind per question in a batch."""
_TOWER_BATCH = 64
"""Images per forward pass of the tower in validation."""


@dataclass(frozen=True, slots=True)
class InBatch(Batch):
    """Questions of a process in one part of a step, with their candidates.

    Attributes:
        pixels: Augmented images, float32 [P, 3, size, size] in 0..1.
        questions: The questions.
        labeled: Labeled images, with an empty text.
        sections: The evidence sections, then further ones.
        labeled_gold: What the questions should find in `labeled`.
        evidence: What the questions should find in `sections`.
        weight: Weight of the mean loss.
    """

    pixels: Tensor
    questions: Texts
    labeled: Texts
    sections: Texts
    labeled_gold: Targets
    evidence: Targets
    weight: float


class InBatchMaker:
    """Makes batches; equal arguments give equal batches, in any thread.

    An image is drawn with a weight of 1 / sqrt(number of images of its entity), halfway between equal weights for
    images and equal weights for entities.

    Args:
        samples: The samples.
        texts: Token ids of all texts.
        store: Pixels of all images.
        order: The samples to train on, the size of a batch and the seed; which of the samples are drawn follows from
            their images.
        rank: The number of this process.
        size: Side of the model's input in pixels.
        padding: Token id of padding.
    """

    def __init__(
        self,
        samples: SampleSet,
        texts: Rows,
        store: FeatureStore,
        order: Order,
        rank: int,
        *,
        size: int,
        padding: int,
    ):
        self.samples, self.texts, self.store = samples, texts, store
        self.order, self.rank, self.size, self.padding = order, rank, size, padding
        rows = order.samples
        self.images, first = np.unique(samples.query_image[rows], return_index=True)
        self.batch_size = min(order.batch_size, len(self.images))
        self.owners = samples.original[samples.gold[rows][first]]
        self._questions = _Groups(np.searchsorted(self.images, samples.query_image[rows]), len(self.images), rows)
        entities = len(samples.main_image)
        self._shown = _Groups(self.owners, entities, np.arange(len(self.images)))
        weights = self._shown.counts[self.owners] ** -0.5
        self._weights = weights / weights.sum()

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps that draw as many images as there are."""
        return math.ceil(len(self.images) / (self.batch_size * self.order.accumulate * self.order.processes))

    def __call__(self, number: int) -> InBatch:
        """Returns the batch with a number, counted over the parts of all steps."""
        # Seeded by the part's number among those of all processes, so that any number of them draws the same.
        rng = np.random.default_rng([self.order.seed, number * self.order.processes + self.rank, 0])
        chosen = self._draw(rng)
        samples = self.samples
        asked = [int(rng.choice(self._questions[image])) for image in chosen]
        # An image may have questions about several entities; copies of an article are one entity.
        owners = samples.original[samples.gold[asked]].tolist()
        first = dict[int, tuple[int, int]]()  # entity and evidence of an owner's first question
        for sample, owner in zip(asked, owners, strict=True):
            first.setdefault(owner, (int(samples.gold[sample]), int(samples.evidence[sample])))
        main = list(first.values())[: max(1, round(_MAIN * self.batch_size))]
        further = [(entity, self._other_section(entity, section, rng)) for entity, section in main]
        sections = [*main, *((entity, section) for entity, section in further if section is not None)]
        several = [owner for owner in first if self._shown.counts[owner] > 1]
        labeled = several[: max(1, round(_LABELED * self.batch_size))]
        others = [self._other_image(entity, chosen, rng) for entity in labeled]

        varied = [*self.images[chosen].tolist(), *self.images[others].tolist()]
        slightly = [int(samples.main_image[entity]) for entity, _ in main]
        place = {entity: len(varied) + number for number, (entity, _) in enumerate(main)}
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        pixels = [vary(self._pixels(varied), self.size, generator)]
        pixels.append(vary(self._pixels(slightly), self.size, generator, SLIGHT))
        column = {section: number for number, (_, section) in enumerate(main)}
        return InBatch(
            torch.cat(pixels),
            self._texts([self.texts[int(samples.question[sample])] for sample in asked], range(len(chosen))),
            self._texts([self.texts[len(self.texts) - 1]] * len(labeled), range(len(chosen), len(varied))),
            self._texts([self.texts[section] for _, section in sections], [place[entity] for entity, _ in sections]),
            Targets.of(labeled.index(entity) if entity in labeled else None for entity in owners),
            Targets.of(column.get(int(samples.evidence[sample])) for sample in asked),
            1 / self.order.accumulate,
        )

    def _draw(self, rng: np.random.Generator) -> list[int]:
        """Draws distinct images: some by weight, each followed by images of entities that step 1 confuses with it."""
        drawn = dict[int, None]()
        for image in rng.choice(len(self.images), self.batch_size, replace=False, p=self._weights).tolist():
            if len(drawn) < self.batch_size:
                drawn[image] = None
                confused = self.samples.original[self.samples.others(int(self._questions[image][0]))]
                found = [entity for entity in dict.fromkeys(confused.tolist()) if self._shown.counts[entity]]
                for entity in rng.choice(found, min(CONFUSED, len(found)), replace=False).tolist():
                    drawn[int(rng.choice(self._shown[entity]))] = None
        return list(drawn)[: self.batch_size]

    def _other_section(self, entity: int, section: int, rng: np.random.Generator) -> int | None:
        own = self.samples.sections_of(entity)
        if len(own) < 2:
            return None
        other = own[int(rng.integers(len(own) - 1))]
        return other if other < section else other + 1

    def _other_image(self, entity: int, chosen: Sequence[int], rng: np.random.Generator) -> int:
        """Returns an image of an entity that is not among the chosen ones, or any if all of them are."""
        own = self._shown[entity]
        free = own[~np.isin(own, chosen)]
        return int(rng.choice(free if len(free) else own))

    def _pixels(self, rows: Sequence[int]) -> Tensor:
        return self.store.read(rows, [0] * len(rows))

    def _texts(self, rows: Sequence[NDArray[np.int64]], images: Sequence[int]) -> Texts:
        return padded(rows, torch.tensor(list(images), dtype=torch.int64), self.padding)


class TowerFeatures:
    """Features of images, computed on demand with the current weights of a tower.

    Args:
        fusion: The encoder in training.
        store: Pixels of all images.
        precision: Dtype of matrix products.
    """

    def __init__(self, fusion: QFormerFusion, store: FeatureStore, precision: torch.dtype):
        self.fusion, self.store, self.precision = fusion, store, precision

    @property
    def views(self) -> IntArray:
        """Number of views per image, [I]."""
        return self.store.views

    def read(self, rows: Sequence[int], views: Sequence[int]) -> Tensor:
        """Returns features, float32 [N, cells, width] on the model's device."""
        pixels, device = self.fusion.pixels, self.fusion.query_tokens.device
        parts = []
        for part in self.store.read(rows, views).split(_TOWER_BATCH):
            small = pixels.normalize(resized(to_device(part, device), pixels.size))
            with autocast(device.type, self.precision):
                parts.append(self.fusion.vision_features(small.to(memory_format=torch.channels_last)))
        return torch.cat(parts)


class _Groups:
    """Items by group number.

    Args:
        group: The group of each item, [N].
        groups: Number of groups.
        items: The items, [N].
    """

    def __init__(self, group: NDArray[np.integer], groups: int, items: NDArray[np.integer]):
        order = np.argsort(group, kind="stable")
        self._items: IntArray = items[order].astype(np.int64)
        self.counts: IntArray = np.bincount(group, minlength=groups)
        self._first = np.concatenate([[0], np.cumsum(self.counts)])

    def __getitem__(self, group: int) -> IntArray:
        """Returns the items of a group."""
        return self._items[self._first[group] : self._first[group + 1]]
