"""Finds entities by the words that stand on their images and in their names: cosine of tf-idf over character n-grams.

A document is the text of one image, or one name; an entity is as similar as the most similar of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np

from indexes.parts.weights import SharedWeights
from indexes.store.grams import grams
from indexes.store.postings import Document, InvertedLists, Layout, Learned, write_postings
from retriever.types import BoolArray

FILES = ("word_grams.npy", "word_starts.npy", "word_postings.npy", "word_documents.npy")
WHOLE_WORDS = "whole_words.safetensors"
"""In a part: in how many documents of the whole index each gram is, from which the weights are learned there."""
_LAYOUT = Layout(FILES, grams)


def write_words(folder: Path, documents: Iterable[Document]) -> None:
    """Writes `FILES`, given the documents in the order of their rows, with a bounded number of postings in memory."""
    write_postings(folder, documents, _LAYOUT, _learned(folder))


def _learned(folder: Path) -> Learned | None:
    return SharedWeights.load(folder / WHOLE_WORDS) if (folder / WHOLE_WORDS).is_file() else None


class WordSearch:
    """Finds entities by words.

    Args:
        lists: The inverted lists of the documents.
    """

    def __init__(self, lists: InvertedLists) -> None:
        self.lists = lists

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens what `write_words` wrote."""
        return cls(InvertedLists.open(folder, _LAYOUT, _learned(folder)))

    def with_weights(self, documents: Iterable[Document]) -> WordSearch:
        """Returns a search of other documents, in the order of their rows, with the weights of this one."""
        return WordSearch(self.lists.of_others(documents))

    def similar(self, text: str, k: int, rows: Iterable[int] = (), among: BoolArray | None = None) -> dict[int, float]:
        """Returns the cosine of the `k` entities most similar to a text, best first, and of those at `rows`.

        The `k` are of the rows that are true in `among`, by default of all.
        If a text's grams have more postings than a search reads, the most frequent grams add nothing to the cosine.
        """
        own, counts = grams(text)
        weights = self.lists.weights(own)
        length = float(np.linalg.norm(weights * counts))
        numbers, sizes, postings = self.lists.read(own)
        if not sizes:
            return dict.fromkeys(rows, 0.0)
        values = np.repeat((weights * (weights * counts))[numbers], sizes) * postings["count"]
        sums = np.bincount(postings["document"], weights=values)
        documents = np.flatnonzero(sums)
        table = self.lists.documents
        owners, lengths = table["row"][documents], table["length"][documents]
        cosines = sums[documents] / (lengths * length)
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        entities, best = owners[first], np.maximum.reduceat(cosines, first)
        order = np.argsort(-best, kind="stable")
        order = (order if among is None else order[among[entities[order]]])[:k]
        found = dict(zip(entities[order].tolist(), best[order].tolist(), strict=True))
        others = np.array([row for row in rows if row not in found], np.int64)
        at = np.minimum(np.searchsorted(entities, others), len(entities) - 1)
        return found | dict(zip(others.tolist(), np.where(entities[at] == others, best[at], 0.0).tolist(), strict=True))
