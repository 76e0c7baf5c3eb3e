"""Protocols of what answers a question: an index of entities, a retriever over it, and a generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor

from retriever.types import (
    Entity,
    Filter,
    FloatArray,
    Generation,
    GenerationRequest,
    IntArray,
    Query,
    RetrievalResult,
    StoredTokens,
)


class TokenIndex(Protocol):
    """The stored tokens of entities."""

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's sections in the token store; empty without image or sections."""

    def token_rows(self, row: int) -> range:
        """Returns all rows of an entity in the token store: its sections, then its images, labeled ones last."""

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Reads stored tokens; each span is the `token_rows` of an entity or a prefix of them."""


class EntityIndex(TokenIndex, Protocol):
    """An index of entities: vector search, articles, thumbnails and the stored tokens."""

    @property
    def name(self) -> str:
        """The name of the knowledge base that the index was built from."""

    def __len__(self) -> int:
        """Returns the number of entities."""

    def search(self, vectors: Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Searches for `vectors` [B, dimension] among the entities that fit a filter.

        Returns scores float32 [B, k] and rows int64 [B, k], best first, padded with row -1.
        """

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`."""

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it is not in the index."""

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the thumbnail of the entity's main image, or `None` without an image or such a row."""

    def thumbnails(self, row: int) -> Mapping[str, bytes]:
        """Returns the small copies that it stores of an entity's images, JPEG, by their URLs."""


class QueryRetriever(Protocol):
    """Finds the candidates of a batch of queries in an index, best first."""

    @property
    def index(self) -> EntityIndex:
        """The index that the candidates' rows refer to."""

    def retrieve(self, queries: Sequence[Query]) -> list[RetrievalResult]:
        """Returns one result per query, in order."""


class Generator(Protocol):
    """Answers a question from its image and evidence."""

    @property
    def name(self) -> str:
        """The name shown to users and stored with runs."""

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request."""

    def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, then the `Generation` that `generate` would have returned."""
