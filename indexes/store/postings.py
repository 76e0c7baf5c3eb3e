"""Inverted lists: in which documents a term occurs, and how often. A document is a text of an entity.

Terms are hashes; what a term is, and how long a document counts as, is the caller's business.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from indexes.growing import GrowingRows, save_array
from retriever.arrays import map_array
from retriever.types import FloatArray, IntArray

TermArray = NDArray[np.uint64]
Terms = Callable[[str], tuple[TermArray, IntArray]]
"""Returns the terms of a text, as ascending hashes whose leading bits are even, and how often each occurs."""
Document = tuple[int, str]
"""The row of an entity, and a text of it."""
MOST = 1 << 20
"""Most postings that a search reads, those of the rarest terms first: among millions of texts, others say little."""

_POSTING = np.dtype([("document", "<i4"), ("count", "u1")])
_DOCUMENT = np.dtype([("row", "<i4"), ("length", "<f4")])
_HELD = 1 << 22
"""Postings in memory before they are put aside, and into how many files then, in the order of their terms."""
_PARTS = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """How the texts of a kind are searched.

    Attributes:
        files: The files of the distinct terms, ascending, of where the postings of each begin, of the postings, and of
            the documents.
        terms: Returns the terms of a text.
        weighted: Whether the length of a document is that of its vector of tf-idf weights, or else its number of terms.
    """

    files: tuple[str, str, str, str]
    terms: Terms
    weighted: bool = True


class _Postings(NamedTuple):
    """Documents by terms, in this order: the term of each, the document, and how often it has the term."""

    terms: TermArray
    documents: NDArray[np.int32]
    counts: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Iterable[tuple[int, str]], terms: Terms) -> Self:
        """Returns the postings of numbered documents."""
        parts = [(number, *terms(text)) for number, text in texts]
        joined = np.concatenate([np.empty(0, np.uint64), *(own for _, own, _ in parts)])
        documents = np.repeat([number for number, *_ in parts], [len(own) for _, own, _ in parts]).astype(np.int32)
        counts = np.concatenate([np.empty(0, np.int64), *(often for *_, often in parts)])
        return cls(joined, documents, np.minimum(counts, 255).astype(np.uint8)).ordered()

    def ordered(self) -> Self:
        """Returns them by terms; documents of a term keep their order."""
        order = np.argsort(self.terms, kind="stable")
        return type(self)(self.terms[order], self.documents[order], self.counts[order])

    def by_term(self) -> tuple[TermArray, IntArray, NDArray[Any]]:
        """Returns the distinct terms, where the postings of each begin, and the postings."""
        found, starts = np.unique(self.terms, return_index=True)
        postings = np.empty(len(self.terms), _POSTING)
        postings["document"], postings["count"] = self.documents, self.counts
        return found, starts.astype(np.int64), postings


def idf(frequencies: IntArray, documents: int) -> FloatArray:
    """Returns the weights of terms that so many of the documents have."""
    weights: FloatArray = (np.log((1 + documents) / (1 + frequencies)) + 1).astype(np.float32)
    return weights


def write_postings(folder: Path, documents: Iterable[Document], layout: Layout, learned: Learned | None = None) -> None:
    """Writes a layout's files, given the documents in the order of their rows, with a bounded number in memory.

    Lengths have the weights that are `learned`, by default from these documents.
    """
    aside = folder / f"{layout.files[2]}.parts"
    shutil.rmtree(aside, ignore_errors=True)  # of a run that was killed
    aside.mkdir()
    rows = array("i")
    blocks = _blocks(documents, rows)
    first_ones = list(islice(blocks, 2))
    parts = _PARTS if len(first_ones) > 1 else 1
    for block in chain(first_ones, blocks):
        _put_aside(aside, _Postings.of(block, layout.terms), parts)
    lengths, count = np.zeros(len(rows)), 0
    terms_path, starts_path, postings_path, documents_path = (folder / name for name in layout.files)
    with (
        GrowingRows(terms_path, (), np.dtype(np.uint64)) as found,
        GrowingRows(starts_path, (), np.dtype(np.int64)) as starts,
        GrowingRows(postings_path, (), _POSTING) as postings,
    ):
        for file in (found, starts, postings):
            file.cut(0)
        for part in range(parts):
            own, first, written = _taken(aside, part).by_term()
            frequencies = np.diff(first, append=len(written))
            known = (frequencies, len(rows)) if learned is None else (learned.occurrences(own), learned.count)
            lengths += _summed(written, idf(*known), frequencies, len(rows), layout)
            found.append(own)
            starts.append(first + count)
            postings.append(written)
            count += len(written)
        starts.append(np.array([count], np.int64))
        for file in (found, starts, postings):
            file.finish()
    table = np.empty(len(rows), _DOCUMENT)
    table["row"], table["length"] = rows, np.sqrt(lengths) if layout.weighted else lengths
    save_array(documents_path, table)
    shutil.rmtree(aside)


def _summed(
    postings: NDArray[Any], weights: FloatArray, frequencies: IntArray, documents: int, layout: Layout
) -> NDArray[np.float64]:
    """Returns how much postings add to each document's length, or to its square if `layout.weighted`; float64 [N]."""
    values = postings["count"].astype(float)
    if layout.weighted:
        values = (np.repeat(weights, frequencies) * postings["count"]).astype(float) ** 2
    return np.bincount(postings["document"], weights=values, minlength=documents).astype(np.float64)


def _blocks(documents: Iterable[Document], rows: array[int]) -> Iterator[list[tuple[int, str]]]:
    """Yields numbered documents, as many as may be in memory at a time, and notes their rows."""
    block, held = list[tuple[int, str]](), 0
    for row, text in documents:
        block.append((len(rows), text))
        rows.append(row)
        held += 2 * len(text)
        if held > _HELD:
            yield block
            block, held = [], 0
    yield block


def _put_aside(folder: Path, postings: _Postings, parts: int) -> None:
    bounds = np.array([(part << 64) // parts for part in range(1, parts)], np.uint64)
    places = np.searchsorted(postings.terms, bounds).tolist()
    for part, (first, last) in enumerate(pairwise([0, *places, len(postings.terms)])):
        for name, values in postings._asdict().items():
            with (folder / f"{part}.{name}").open("ab") as file:
                file.write(values[first:last].tobytes())


def _taken(folder: Path, part: int) -> _Postings:
    found = np.fromfile(folder / f"{part}.terms", np.uint64)
    documents = np.fromfile(folder / f"{part}.documents", np.int32)
    return _Postings(found, documents, np.fromfile(folder / f"{part}.counts", np.uint8)).ordered()


class Learned(Protocol):
    """Documents that the weights of terms are learned from."""

    @property
    def count(self) -> int:
        """Their number."""

    @property
    def mean_length(self) -> float:
        """The mean length of a document."""

    def occurrences(self, wanted: TermArray) -> IntArray:
        """Returns in how many of the documents each term is."""


class InvertedLists:
    """The inverted lists of documents (implements `Learned`).

    Args:
        layout: How they are searched.
        terms: The distinct terms, ascending.
        starts: Where the postings of each begin, and where the last ones end.
        postings: The postings, memory-mapped or not.
        documents: The documents, in the order of their rows.
        learned: What the weights are learned from, by default these documents.
    """

    def __init__(
        self,
        layout: Layout,
        terms: TermArray,
        starts: IntArray,
        postings: NDArray[Any],
        documents: NDArray[Any],
        learned: Learned | None = None,
    ) -> None:
        self.layout, self.documents, self.terms = layout, documents, terms
        self._starts, self._postings = starts, postings
        self.learned: Learned = learned or self

    @classmethod
    def open(cls, folder: Path, layout: Layout, learned: Learned | None = None) -> Self:
        """Opens what `write_postings` wrote."""
        files = [map_array(folder / name) for name in layout.files]
        return cls(layout, files[0], files[1], files[2], files[3], learned)

    def of_others(self, documents: Iterable[Document]) -> Self:
        """Returns the lists of other documents, in the order of their rows, with the weights of these."""
        entries = list(documents)
        texts = ((number, text) for number, (_, text) in enumerate(entries))
        found, starts, postings = _Postings.of(texts, self.layout.terms).by_term()
        frequencies = np.diff(starts, append=len(postings))
        table = np.empty(len(entries), _DOCUMENT)
        table["row"] = [row for row, _ in entries]
        lengths = _summed(postings, self.weights(found), frequencies, len(entries), self.layout)
        table["length"] = np.sqrt(lengths) if self.layout.weighted else lengths
        return type(self)(self.layout, found, np.append(starts, len(postings)), postings, table, self.learned)

    def with_weights(self, learned: Learned) -> Self:
        """Returns the same lists with other weights."""
        return type(self)(self.layout, self.terms, self._starts, self._postings, self.documents, learned)

    @property
    def count(self) -> int:
        """The number of documents."""
        return len(self.documents)

    @cached_property
    def mean_length(self) -> float:
        """The mean length of a document."""
        return float(self.documents["length"].mean()) if len(self.documents) else 1.0

    def occurrences(self, wanted: TermArray) -> IntArray:
        """Returns in how many of the documents each term is."""
        places, known = self._places(wanted)
        first = np.where(known, places, 0)
        counts: IntArray = np.where(known, self._starts[first + known] - self._starts[first], 0)
        return counts

    def weights(self, wanted: TermArray) -> FloatArray:
        """Returns the idf of terms; those that no document has weigh most."""
        return idf(self.learned.occurrences(wanted), self.learned.count)

    def read(self, wanted: TermArray) -> tuple[IntArray, list[int], NDArray[Any]]:
        """Returns the numbers of those of the wanted terms that are read, the postings of each, and all of these.

        If terms have more than `MOST` postings, the most frequent ones are left out.
        """
        places, known = self._places(wanted)
        first, last = self._starts[places[known]], self._starts[places[known] + 1]
        rarest = np.argsort(last - first, kind="stable")
        rarest = rarest[: max(1, int(np.searchsorted(np.cumsum((last - first)[rarest]), MOST, side="right")))]
        spans = [slice(*span) for span in zip(first[rarest].tolist(), last[rarest].tolist(), strict=True)]
        postings = np.concatenate([np.empty(0, _POSTING), *(self._postings[span] for span in spans)])
        return np.flatnonzero(known)[rarest], [span.stop - span.start for span in spans], postings

    def _places(self, wanted: TermArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Returns where terms are among those of the documents, and whether they are."""
        places = np.searchsorted(self.terms, wanted)
        inside = places < len(self.terms)
        known = np.zeros(len(wanted), np.bool_)
        known[inside] = self.terms[places[inside]] == wanted[inside]
        return places, known
