"""Questions without an image."""

from __future__ import annotations

from indexes.live.section_search import IndexSections
from indexes.store.index import Index
from retriever.mixed import MixedRetrieval
from retriever.pipeline import Retriever
from retriever.protocols import TextReranker
from retriever.step3_sections import SectionRerank


def mixed_retrieval(retriever: Retriever[Index], reranker: TextReranker, beta: float, k: int) -> MixedRetrieval:
    """Returns the retrieval for batches with questions without an image, by step 3's model."""
    return MixedRetrieval(retriever, IndexSections(retriever.index), SectionRerank(reranker, retriever.index, beta), k)
