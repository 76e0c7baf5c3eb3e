"""What the service asks of a retriever in several processes."""

from __future__ import annotations

from collections.abc import Sequence
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
class ParallelRetriever(Protocol):
    """An optional extension of a retriever that works on several batches side by side, in lanes."""

    @property
    def lanes(self) -> Sequence[Lane]:
        """The lanes."""
