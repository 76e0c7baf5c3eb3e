"""An index whose parts are served at addresses: opens it, and retrieves from the parts that answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from indexes.parts.index import PartedIndex, front_folder
from indexes.parts.remote import Parts
from indexes.parts.searches import PartedSections, PartedText
from indexes.store.index import Index, OpenOptions
from retriever.mixed import MixedRetrieval
from retriever.pipeline import Retriever
from retriever.protocols import TextReranker
from retriever.step3_sections import SectionRerank
from retriever.types import Query, RetrievalResult


class Front:
    """What `omgm.opening` needs of an index in parts.

    Args:
        addresses: The addresses of the parts, separated by commas; as a path, in which two slashes became one.

    Attributes:
        folder: A folder with what is known of the whole index.

    Raises:
        ValueError: As for `PartedIndex`.
        EngineError: None of the parts answers.
    """

    def __init__(self, addresses: Path) -> None:
        urls = [re.sub("^(https?):/+", r"\1://", url.strip()) for url in addresses.as_posix().split(",")]
        self._parts = Parts(urls)
        self.folder = front_folder(self._parts)
        self.retriever = PartedRetriever

    def open(self, folder: Path, **options: Unpack[OpenOptions]) -> PartedIndex:
        """Opens the index; raises errors like `Index.open`."""
        index = PartedIndex.open_parts(self._parts, folder, **options)
        index.texts, index.sections = PartedText(index), PartedSections(index)
        return index


class PartedRetriever(Retriever[Index]):
    """Retrieves again, from the others, if a part is lost while it works; says how many parts have answered."""

    def retrieve(
        self, queries: Sequence[Query], steps: int | None = None, free: Callable[[], object] = bool
    ) -> list[RetrievalResult]:
        """Returns one result per query, in order; see `Retriever.retrieve`."""
        assert isinstance(self.index, PartedIndex)
        if self.index.is_pinned:  # by a call that retrieves again itself
            return super().retrieve(queries, steps, free)
        found = super().retrieve
        return self.index.retried(  # the view is also for images that are searched again, in parts or turned
            lambda view: [replace(one, parts=(len(view.up), view.of)) for one in found(queries, steps, free)]
        )


def mixed_retrieval(retriever: Retriever[Index], reranker: TextReranker, beta: float, k: int) -> MixedRetrieval:
    """Returns the retrieval for batches with questions without an image; see `omgm.kinds.texts`."""
    assert isinstance(retriever.index, PartedIndex)
    last = SectionRerank(reranker, retriever.index, beta)
    return MixedRetrieval(retriever, retriever.index.sections, last, k)
