"""Batches of tensors, made and sent to a GPU while it computes, and scalars that come back the same way."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from indexes.ahead import map_ahead
from retriever.gpu import to_device


class Batch:
    """The base of dataclasses of tensors, of lists of tensors and of such dataclasses, which move as a whole."""

    __slots__ = ()

    def pinned(self, device: torch.device) -> Self:
        """Returns the batch in pinned memory if it will move to a GPU, for the thread that makes it to call."""
        copy: Self = self if device.type == "cpu" else _each(self, _pinned)
        return copy

    def to(self, device: torch.device) -> Self:
        """Copies the batch to a device without waiting for a GPU; tensors that are there already are not copied."""
        copy: Self = _each(self, lambda tensor: to_device(tensor, device))
        return copy


@dataclass(frozen=True, slots=True)
class Targets(Batch):
    """What each of some queries should find among keys; the others have nothing to find.

    Which queries these are is found out on the CPU: a GPU would have to be waited for.

    Attributes:
        queries: The rows of the queries, int64 [T].
        keys: The row of the key that each of them should find, int64 [T].
    """

    queries: Tensor
    keys: Tensor

    @classmethod
    def of(cls, keys: Iterable[int | None]) -> Targets:
        """Returns the targets of queries, given the row of the key of each query, `None` if it has none."""
        found = [(query, key) for query, key in enumerate(keys) if key is not None]
        queries, rows = torch.tensor(found, dtype=torch.int64).view(-1, 2).unbind(1)
        return cls(queries, rows)

    def __len__(self) -> int:
        """Returns the number of queries that have something to find."""
        return len(self.queries)


def read_later(value: Tensor) -> Callable[[], float]:
    """Starts to copy a scalar to the CPU; returns a function that waits for this, but for no later work of a GPU.

    Reading a value directly would wait for everything that the GPU has been given so far.
    """
    copy = value.detach().to("cpu", non_blocking=True)  # to pinned memory if it comes from a GPU
    if not (value.is_cuda and torch.cuda.is_initialized()):
        return copy.item
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(value.device))

    def read() -> float:
        copied.synchronize()
        return copy.item()

    return read


def _pinned(tensor: Tensor) -> Tensor:
    # Contiguous, because gaps would be copied to a GPU through pageable memory.
    return tensor if tensor.is_cuda else tensor.contiguous().pin_memory()


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns a copy of a value in which all tensors are changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list):
        return [_each(one, change) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _each(getattr(value, field.name), change) for field in fields(value)})
    return value


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
