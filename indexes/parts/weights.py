"""What the weights of words are learned from if documents are in several parts: from those of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from safetensors.numpy import load_file, save_file

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
        later: In how many documents of later changes each term is, which add nothing to the weights.
    """

    terms: TermArray
    frequencies: IntArray
    count: int
    length: float
    later: IntArray

    @classmethod
    def none(cls) -> Self:
        """Returns those of no documents."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), 0, 0.0, np.empty(0, np.int64))

    @classmethod
    def of(cls, lists: InvertedLists, changes: InvertedLists, terms: TermArray) -> Self:
        """Counts the documents of one part that have each of some terms, uint64 [N], ascending."""
        length = float(lists.documents["length"].sum(dtype=float))
        return cls(terms, lists.occurrences(terms), lists.count, length, changes.occurrences(terms))

    @classmethod
    def of_all(cls, parts: Iterable[InvertedLists]) -> Self:
        """Counts the documents of all parts that have each of their terms."""
        every = [*parts]
        terms = np.unique(np.concatenate([lists.terms for lists in every]))
        frequencies: IntArray = np.sum([lists.occurrences(terms) for lists in every], axis=0)
        return cls(terms, frequencies, sum(lists.count for lists in every), 0.0, np.zeros(len(terms), np.int64))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file that `save` wrote."""
        file = load_file(path)
        return cls(file["terms"], file["frequencies"], int(file["count"][0]), 0.0, np.zeros_like(file["frequencies"]))

    def save(self, path: Path) -> None:
        """Writes the terms, and in how many of how many documents each is."""
        count = np.array([self.count], np.int64)
        save_file({"terms": self.terms, "frequencies": self.frequencies, "count": count}, path)

    @classmethod
    def read(cls, message: Message) -> Self:
        """Reads a message that `write` made."""
        columns, (count, length) = message.columns, message.values["documents"]
        return cls(columns["terms"], columns["frequencies"], count, length, columns["later"])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Adds up the counts of all parts, which are of the same terms."""
        every = [*parts]
        frequencies: IntArray = np.sum([part.frequencies for part in every], axis=0)
        later: IntArray = np.sum([part.later for part in every], axis=0)
        return cls(
            every[0].terms, frequencies, sum(one.count for one in every), sum(one.length for one in every), later
        )

    @property
    def of_changes(self) -> Self:
        """Those of later changes, by which the names that only these have are known."""
        return replace(self, frequencies=self.later)

    def write(self, **values: object) -> bytes:
        """Returns a message with them and other values."""
        columns = {"terms": self.terms, "frequencies": self.frequencies, "later": self.later}
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
