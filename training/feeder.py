"""Makes batches while the model computes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import torch

from indexes.ahead import map_ahead
from training.batch import Batch

B = TypeVar("B", bound=Batch)


class Feeder(Generic[B]):
    """Makes batches in threads, ahead of their use, and pins them there for a GPU.

    Args:
        make: Makes the batch with a number.
        device: The device that needs the batches.
        ahead: Number of batches to make in advance.

    Attributes:
        waited: Seconds that the model has waited.
    """

    def __init__(self, make: Callable[[int], B], device: torch.device = torch.device("cpu"), ahead: int = 4):  # noqa: B008  immutable
        self.make, self.device, self.ahead = make, device, ahead
        self.waited = 0.0
        self._next = 0
        self._batches: Generator[B] | None = None

    def __call__(self, number: int) -> B:
        """Returns the batch with a number on the device; expects the following one to be requested next."""
        if self._batches is None or number != self._next:
            self.close()
            self._batches = map_ahead(self._made, itertools.count(number), self.ahead)
        started = time.perf_counter()
        batch = next(self._batches)
        self.waited += time.perf_counter() - started
        self._next = number + 1
        return batch.to(self.device)

    def _made(self, number: int) -> B:
        return self.make(number).pinned(self.device)

    def close(self) -> None:
        """Drops batches made in advance."""
        if self._batches is not None:
            self._batches.close()
