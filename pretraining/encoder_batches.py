"""Step 1's training batches: flags with their descriptions, designs, and stickers."""

from __future__ import annotations

import functools

from torch.utils.data import Dataset

from pretraining.camera import Camera
from pretraining.design_batches import DesignBatch, DesignBatches, joined
from pretraining.flag_batches import FlagBatch, FlagBatches
from pretraining.stickers import StickerBatches

KNOWN, MADE_UP, CLEAN = 28, 52, 40  # flags per batch: of the knowledge base, random, and with a clean drawing as well
DESIGNS, STICKERS = 48, 60  # per batch
CUT_OUT = 0.6  # share of designs on another ground in the photograph
SMALL = 0.35  # share of photographs in which the design or sticker fills less of the frame

Batch = tuple[FlagBatch, DesignBatch]


class EncoderBatches(Dataset[Batch]):
    """Flags and designs by step; each batch depends only on (seed, step).

    Args:
        size: Side of an image in pixels.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
    """

    def __init__(self, size: int, summaries: dict[str, str], seed: int = 0):
        self.size, self.summaries, self.seed = size, summaries, seed

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        flags, designs, stickers = self._sources
        return flags(step, CLEAN), joined(designs(step), stickers(step))

    @functools.cached_property
    def _sources(self) -> tuple[FlagBatches, DesignBatches, StickerBatches]:
        """The generators, created in the process that uses them because their scenes take 90 MB."""
        camera = Camera(self.size, self.seed)
        return (
            FlagBatches(camera, KNOWN, MADE_UP, self.summaries, self.seed),
            DesignBatches(camera, DESIGNS, self.seed, cut_out=CUT_OUT, small=SMALL),
            StickerBatches(camera, STICKERS, self.seed, small=SMALL),
        )
