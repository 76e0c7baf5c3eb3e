"""The protocol of what agents search with."""

from __future__ import annotations

from typing import Protocol

from retriever.asking import EntityIndex
from retriever.types import Query, RetrievalResult


class Searcher(Protocol):
    """What agents search with: an index, the retrieval steps over it, and a generator."""

    @property
    def index(self) -> EntityIndex:
        """The index."""

    async def retrieve_query(self, query: Query) -> RetrievalResult:
        """Returns the result of the retrieval steps."""

    async def answer_query(self, query: Query) -> tuple[str | None, RetrievalResult]:
        """Returns the generator's answer (`None` if it abstains) and the result of the retrieval steps."""
