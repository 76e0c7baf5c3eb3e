"""Questions without an image."""

from __future__ import annotations

from indexes.live.section_search import IndexSections
from indexes.store.index import Index
from retriever.mixed import MixedRetrieval
from retriever.pipeline import Retriever
from retriever.step3_sections import SectionRerank


def mixed_retrieval(retriever: Retriever[Index], last: SectionRerank, k: int) -> MixedRetrieval:
    """Returns the retrieval for batches with questions without an image; it shares the retriever's index and step 3."""
    return MixedRetrieval(retriever, IndexSections(retriever.index), last, k)
