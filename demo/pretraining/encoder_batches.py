"""Step 1's training batches: flags with their descriptions, designs, and stickers."""

from __future__ import annotations

import functools

from torch.utils.data import Dataset

from demo.pretraining.camera import Camera
from demo.pretraining.design_batches import CUT_OUT, DesignBatch, DesignBatches, joined
from demo.pretraining.flag_batches import FlagBatch, FlagBatches
from demo.pretraining.stickers import StickerBatches

KNOWN, MADE_UP, CLEAN = 28, 52, 40  # flags per batch: of the knowledge base, random, and with a clean drawing as well
DESIGNS = 96

Batch = tuple[FlagBatch, DesignBatch]


class EncoderBatches(Dataset[Batch]):
    """Flags and designs by step; each batch depends only on (seed, step).

    Args:
        size: Side of an image in pixels.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
        cut_out: Share of designs on a different ground in the photograph.
        small: Share of photographs in which the design fills less of the frame.
        designs: Designs per batch.
        stickers: Stickers per batch, which follow the designs.
    """

    def __init__(
        self,
        size: int,
        summaries: dict[str, str],
        seed: int = 0,
        cut_out: float = CUT_OUT,
        small: float = 0.0,
        designs: int = DESIGNS,
        stickers: int = 0,
    ):
        self.size, self.summaries, self.seed = size, summaries, seed
        self.cut_out, self.small = cut_out, small
        self.designs, self.stickers = designs, stickers

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        flags, designs, stickers = self._sources
        drawn = designs(step)
        if self.stickers:
            drawn = joined(drawn, stickers(step))
        return flags(step, CLEAN), drawn

    @functools.cached_property
    def _sources(self) -> tuple[FlagBatches, DesignBatches, StickerBatches]:
        """The generators, created in the process that uses them because their scenes take 90 MB."""
        camera = Camera(self.size, self.seed)
        return (
            FlagBatches(camera, KNOWN, MADE_UP, self.summaries, self.seed),
            DesignBatches(camera, self.designs, self.seed, cut_out=self.cut_out, small=self.small),
            StickerBatches(camera, self.stickers, self.seed, small=self.small),
        )
