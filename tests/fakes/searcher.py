"""What agents search with, over any index and retriever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retriever.asking import EntityIndex
from retriever.types import Query, RetrievalResult


@dataclass(frozen=True)
class FakeSearcher:
    """A `Searcher` whose generator always says the same."""

    index: EntityIndex
    retrieve: Callable[[Query], RetrievalResult]
    answer: str | None = None

    async def retrieve_query(self, query: Query) -> RetrievalResult:
        return self.retrieve(query)

    async def answer_query(self, query: Query) -> tuple[str | None, RetrievalResult]:
        return self.answer, self.retrieve(query)
