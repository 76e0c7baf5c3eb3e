"""Finds entities by the words that stand on their images and in their names: cosine of tf-idf over character n-grams.

An inverted list says in which documents a gram occurs. A document is the text of one image, or one name; an entity is
as similar as the most similar of its own.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from indexes.growing import GrowingRows, save_array
from indexes.store.grams import GramArray, grams
from retriever.types import FloatArray, IntArray

FILES = ("word_grams.npy", "word_starts.npy", "word_postings.npy", "word_documents.npy")
"""The distinct grams, ascending; where the postings of each begin; the postings; and the documents."""

_POSTING = np.dtype([("document", "<i4"), ("count", "u1")])
_DOCUMENT = np.dtype([("row", "<i4"), ("length", "<f4")])
_HELD = 1 << 22
"""Postings in memory before they are put aside, and into how many files then, in the order of their grams."""
_PARTS = 64
_MOST = 1 << 20
"""Most postings that a search reads, those of the rarest grams first: among millions of names, others say little."""

Document = tuple[int, str]
"""The row of an entity, and a text of it."""


class _Postings(NamedTuple):
    """Documents by grams, in this order: the gram of each, the document, and how often it has the gram."""

    grams: GramArray
    documents: NDArray[np.int32]
    counts: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Iterable[tuple[int, str]]) -> Self:
        """Returns the postings of numbered documents."""
        parts = [(number, *grams(text)) for number, text in texts]
        joined = np.concatenate([np.empty(0, np.uint64), *(own for _, own, _ in parts)])
        documents = np.repeat([number for number, *_ in parts], [len(own) for _, own, _ in parts]).astype(np.int32)
        counts = np.concatenate([np.empty(0, np.int64), *(often for *_, often in parts)])
        return cls(joined, documents, np.minimum(counts, 255).astype(np.uint8)).ordered()

    def ordered(self) -> Self:
        """Returns them by grams; documents of a gram keep their order."""
        order = np.argsort(self.grams, kind="stable")
        return type(self)(self.grams[order], self.documents[order], self.counts[order])

    def by_gram(self) -> tuple[GramArray, IntArray, NDArray[Any]]:
        """Returns the distinct grams, where the postings of each begin, and the postings."""
        found, starts = np.unique(self.grams, return_index=True)
        postings = np.empty(len(self.grams), _POSTING)
        postings["document"], postings["count"] = self.documents, self.counts
        return found, starts.astype(np.int64), postings


def idf(frequencies: IntArray, documents: int) -> FloatArray:
    """Returns the weights of grams that so many of the documents have."""
    weights: FloatArray = (np.log((1 + documents) / (1 + frequencies)) + 1).astype(np.float32)
    return weights


def write_words(folder: Path, documents: Iterable[Document]) -> None:
    """Writes `FILES`, given the documents in the order of their rows, with a bounded number of postings in memory."""
    aside = folder / "word_postings"
    shutil.rmtree(aside, ignore_errors=True)  # of a run that was killed
    aside.mkdir()
    rows = array("i")
    blocks = _blocks(documents, rows)
    first_ones = list(islice(blocks, 2))
    parts = _PARTS if len(first_ones) > 1 else 1
    for block in chain(first_ones, blocks):
        _put_aside(aside, _Postings.of(block), parts)
    squares, count = np.zeros(len(rows)), 0
    grams_path, starts_path, postings_path, documents_path = (folder / name for name in FILES)
    with (
        GrowingRows(grams_path, (), np.dtype(np.uint64)) as found,
        GrowingRows(starts_path, (), np.dtype(np.int64)) as starts,
        GrowingRows(postings_path, (), _POSTING) as postings,
    ):
        for file in (found, starts, postings):
            file.cut(0)
        for part in range(parts):
            own, first, written = _taken(aside, part).by_gram()
            frequencies = np.diff(first, append=len(written))
            weights = np.repeat(idf(frequencies, len(rows)), frequencies) * written["count"]
            squares += np.bincount(written["document"], weights=weights.astype(float) ** 2, minlength=len(rows))
            found.append(own)
            starts.append(first + count)
            postings.append(written)
            count += len(written)
        starts.append(np.array([count], np.int64))
        for file in (found, starts, postings):
            file.finish()
    table = np.empty(len(rows), _DOCUMENT)
    table["row"], table["length"] = rows, np.sqrt(squares)
    save_array(documents_path, table)
    shutil.rmtree(aside)


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
    places = np.searchsorted(postings.grams, bounds).tolist()
    for part, (first, last) in enumerate(pairwise([0, *places, len(postings.grams)])):
        for name, values in postings._asdict().items():
            with (folder / f"{part}.{name}").open("ab") as file:
                file.write(values[first:last].tobytes())


def _taken(folder: Path, part: int) -> _Postings:
    found = np.fromfile(folder / f"{part}.grams", np.uint64)
    documents = np.fromfile(folder / f"{part}.documents", np.int32)
    return _Postings(found, documents, np.fromfile(folder / f"{part}.counts", np.uint8)).ordered()


class WordSearch:
    """Finds entities by words.

    Args:
        found: The distinct grams, ascending.
        starts: Where the postings of each begin, and where the last ones end.
        postings: The postings, memory-mapped or not.
        documents: The documents, in the order of their rows.
        learned: The search whose documents the weights were learned from, by default this one.
    """

    def __init__(
        self,
        found: GramArray,
        starts: IntArray,
        postings: NDArray[Any],
        documents: NDArray[Any],
        learned: WordSearch | None = None,
    ) -> None:
        self._found, self._starts, self._postings, self._documents = found, starts, postings, documents
        self._learned = learned or self

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens what `write_words` wrote."""
        return cls(*(np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in FILES))

    def with_weights(self, documents: Iterable[Document]) -> WordSearch:
        """Returns a search of other documents, in the order of their rows, with the weights of this one."""
        entries = list(documents)
        found, starts, postings = _Postings.of((number, text) for number, (_, text) in enumerate(entries)).by_gram()
        frequencies = np.diff(starts, append=len(postings))
        weights = np.repeat(self.weights(found), frequencies) * postings["count"]
        table = np.empty(len(entries), _DOCUMENT)
        table["row"] = [row for row, _ in entries]
        squares = np.bincount(postings["document"], weights=weights.astype(float) ** 2, minlength=len(entries))
        table["length"] = np.sqrt(squares)
        return WordSearch(found, np.append(starts, len(postings)), postings, table, self._learned)

    def weights(self, wanted: GramArray) -> FloatArray:
        """Returns the idf of grams; those that no document has weigh most."""
        places, known = self._learned._places(wanted)
        starts = self._learned._starts
        frequencies = np.where(known, starts[np.where(known, places + 1, 0)] - starts[np.where(known, places, 0)], 0)
        return idf(frequencies, len(self._learned._documents))

    def _places(self, wanted: GramArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Returns where grams are among those of the documents, and whether they are."""
        places = np.searchsorted(self._found, wanted)
        inside = places < len(self._found)
        known = np.zeros(len(wanted), np.bool_)
        known[inside] = self._found[places[inside]] == wanted[inside]
        return places, known

    def similar(self, text: str, k: int, rows: Iterable[int] = ()) -> dict[int, float]:
        """Returns the cosine of the `k` entities most similar to a text, best first, and of those at `rows`.

        If a text's grams have more postings than a search reads, the most frequent grams add nothing to the cosine.
        """
        own, counts = grams(text)
        weights = self.weights(own) * counts
        length = float(np.linalg.norm(weights))
        places, known = self._places(own)
        first, last = self._starts[places[known]], self._starts[places[known] + 1]
        rarest = np.argsort(last - first, kind="stable")
        rarest = rarest[: max(1, int(np.searchsorted(np.cumsum((last - first)[rarest]), _MOST, side="right")))]
        spans = [slice(*span) for span in zip(first[rarest].tolist(), last[rarest].tolist(), strict=True)]
        if not spans:
            return dict.fromkeys(rows, 0.0)
        postings = np.concatenate([self._postings[span] for span in spans])
        factors = (self.weights(own[known]) * weights[known])[rarest]
        values = np.repeat(factors, [span.stop - span.start for span in spans]) * postings["count"]
        sums = np.bincount(postings["document"], weights=values)
        documents = np.flatnonzero(sums)
        owners, lengths = self._documents["row"][documents], self._documents["length"][documents]
        cosines = sums[documents] / (lengths * length)
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        entities, best = owners[first], np.maximum.reduceat(cosines, first)
        order = np.argsort(-best, kind="stable")[:k]
        found = dict(zip(entities[order].tolist(), best[order].tolist(), strict=True))
        others = np.array([row for row in rows if row not in found], np.int64)
        at = np.minimum(np.searchsorted(entities, others), len(entities) - 1)
        return found | dict(zip(others.tolist(), np.where(entities[at] == others, best[at], 0.0).tolist(), strict=True))
