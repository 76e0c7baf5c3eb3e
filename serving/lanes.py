"""What the service asks of a retriever that works on several batches at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from retriever.types import Query, RetrievalResult


class Lane(Protocol):
    """Retrieves for one batch at a time, beside others."""

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result per query, in order."""

    def revive(self) -> None:
        """Makes this lane usable again, if the last batch has broken it; may take seconds."""

    def close(self) -> None:
        """Frees what the lane holds; it is not used any more."""


@runtime_checkable
class PipelinedRetriever(Protocol):
    """An optional extension of a retriever that can work on several batches at once, each in other steps."""

    @property
    def in_flight(self) -> int:
        """How many batches can be in progress at once."""

    def retrieve(self, queries: Sequence[Query], *, free: Callable[[], object]) -> list[RetrievalResult]:
        """Returns one result per query, in order; calls `free` as soon as another batch may begin."""


@runtime_checkable
class ParallelRetriever(Protocol):
    """An optional extension of a retriever that works on several batches side by side, in lanes."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """The lanes."""
