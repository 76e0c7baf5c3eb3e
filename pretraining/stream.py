"""Training batches that other processes make ahead of the steps that need them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Generic, TypeVar

from torch.utils.data import DataLoader, Dataset

Batch = TypeVar("Batch", covariant=True)

AHEAD = 4  # batches


class BatchStream(Generic[Batch]):
    """Batches by step, which must be requested in order, starting at any step.

    Args:
        batches: Makes the batch of a step from the step number alone.
        workers: Processes that make them; with 0, each batch is made on request.
    """

    def __init__(self, batches: Dataset[Batch], workers: int = 1):
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
