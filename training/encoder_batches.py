"""Batches for step 1's training: varied images with what each of them should find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.augment import SLIGHT, vary
from training.batch import Batch, Targets
from training.images import StoredImages

IMAGES, TEXTS, MAIN = 112, 144, 64  # per batch: images, summaries, main images to find


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
        size: int,
        seed: int,
    ):
        self.images, self.ids, self.mask, self.size, self.seed = images, ids, mask, size, seed
        self.entities = entities
        self.main_at = first_of_each(rows[:main_images])
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
        shown = [row for row in dict.fromkeys(owners) if row in self.main_at][:MAIN]
        if shown:
            keys = self.images[[self.main_at[row] for row in shown]]
            pixels.append(vary(keys, self.size, generator, SLIGHT))
        return EncoderBatch(
            torch.cat(pixels),
            self.ids[texts],
            self.mask[texts],
            targets_among(texts.tolist(), owners),
            targets_among(shown, owners),
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
    """Returns what images should find: the key of their entity, if there is one.

    Args:
        keys: The entity of each key, all distinct.
        owners: The entity of each image.
    """
    place = {row: number for number, row in enumerate(keys)}
    return Targets.of(map(place.get, owners))
