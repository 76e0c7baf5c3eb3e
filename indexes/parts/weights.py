"""What the weights of words are learned from if documents are in several parts: from those of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from indexes.parts.messages import Message, write
from indexes.store.postings import InvertedLists, TermArray
from retriever.types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class SharedWeights:
    """Documents of several parts (implements `indexes.store.postings.Learned`).

    Attributes:
        terms: Some terms, ascending.
        frequencies: In how many of the documents each is.
        count: The number of documents.
        length: The sum of their lengths.
    """

    terms: TermArray
    frequencies: IntArray
    count: int
    length: float

    @classmethod
    def none(cls) -> Self:
        """Returns those of no documents."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), 0, 0.0)

    @classmethod
    def of(cls, lists: InvertedLists, terms: TermArray) -> Self:
        """Counts the documents of one part that have each of some terms, uint64 [N], ascending."""
        return cls(terms, lists.occurrences(terms), lists.count, float(lists.documents["length"].sum(dtype=float)))

    @classmethod
    def read(cls, message: Message) -> Self:
        """Reads a message that `write` made."""
        return cls(message.columns["terms"], message.columns["frequencies"], *message.values["documents"])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Adds up the counts of all parts, which are of the same terms."""
        every = [*parts]
        frequencies: IntArray = np.sum([part.frequencies for part in every], axis=0)
        return cls(every[0].terms, frequencies, sum(one.count for one in every), sum(one.length for one in every))

    def write(self, **values: object) -> bytes:
        """Returns a message with them and other values."""
        columns = {"terms": self.terms, "frequencies": self.frequencies}
        return write(columns, documents=[self.count, self.length], **values)

    @property
    def mean_length(self) -> float:
        """The mean length of a document."""
        return float(np.float32(self.length / self.count)) if self.count else 1.0

    def occurrences(self, wanted: TermArray) -> IntArray:
        """Returns in how many of the documents each term is; 0 for others than `terms`."""
        if not len(self.terms):
            return np.zeros(len(wanted), np.int64)
        places = np.minimum(np.searchsorted(self.terms, wanted), len(self.terms) - 1)
        counts: IntArray = np.where(self.terms[places] == wanted, self.frequencies[places], 0)
        return counts
