"""Step 1's training batches, made by another process ahead of the steps that need them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

from torch.utils.data import DataLoader, Dataset

from demo.pretraining.camera import Camera
from demo.pretraining.design_batches import DesignBatch, DesignBatches
from demo.pretraining.flag_batches import FlagBatch, FlagBatches

KNOWN, MADE_UP, CLEAN = 28, 52, 40  # flags per batch: of the knowledge base, random, and those with a clean drawing too
DESIGNS = 96
AHEAD = 4  # batches

Batch = tuple[FlagBatch, DesignBatch]


class EncoderBatches(Dataset[Batch]):
    """Flags and designs by step, each batch from (seed, step) alone.

    Args:
        size: Side of an image in pixels.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
    """

    def __init__(self, size: int, summaries: dict[str, str], seed: int = 0):
        self.size, self.summaries, self.seed = size, summaries, seed

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        flags, designs = self._sources
        return flags(step, CLEAN), designs(step)

    @functools.cached_property
    def _sources(self) -> tuple[FlagBatches, DesignBatches]:
        """The generators, made in the process that uses them: their scenes take 90 MB."""
        camera = Camera(self.size, self.seed)
        return FlagBatches(camera, KNOWN, MADE_UP, self.summaries, self.seed), DesignBatches(camera, DESIGNS, self.seed)


class BatchStream:
    """Batches by step, which must be asked for in order, from any first one.

    Args:
        batches: Makes them.
        workers: Processes that make them; 0 makes each when it is asked for.
    """

    def __init__(self, batches: EncoderBatches, workers: int = 1):
        self.batches, self.workers = batches, workers
        self._made: Iterator[Batch] | None = None

    def __call__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        if self._made is None:
            self._made = iter(
                DataLoader(
                    self.batches,
                    batch_size=None,
                    sampler=range(step, sys.maxsize),
                    num_workers=self.workers,
                    prefetch_factor=AHEAD if self.workers else None,
                    multiprocessing_context="spawn" if self.workers else None,
                )
            )
        return next(self._made)
