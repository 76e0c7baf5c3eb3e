"""Searches the sections of an index, with its later changes, by their words and their meaning."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from indexes.live.reading import version_of
from indexes.live.version import Version
from indexes.store.columns import SPREAD
from indexes.store.index import Index
from indexes.store.layout import REBUILD
from indexes.store.postings import InvertedLists
from indexes.store.section_nearest import Place, SectionVectors
from indexes.store.section_vectors import SECTION_VECTORS
from indexes.store.section_words import FINGERPRINT, LAYOUT, SECTION_WORDS, QuestionWords, documents_of, terms_of
from retriever.arrays import map_array
from retriever.filters import fits
from retriever.section_search import SectionMatch
from retriever.types import BoolArray, Filter, FloatArray

logger = logging.getLogger(__name__)

T = TypeVar("T")
BEST = 100
"""Sections that are looked at: so many of the best by words, and by meaning."""
_LAYOUT = replace(LAYOUT, terms=lru_cache(maxsize=1 << 14)(terms_of))
"""Each change makes a new version, whose other changed sections need not be split into words again."""


class IndexSections:
    """Finds sections of an index (implements `retriever.section_search.SectionIndex`); thread-safe.

    Args:
        index: The index. One that was built before the words of sections were stored is searched by meaning alone.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._files: WeakKeyDictionary[Index, SearchedSections] = WeakKeyDictionary()
        self._changes: WeakKeyDictionary[Version, SearchedSections] = WeakKeyDictionary()

    def lists(self) -> list[InvertedLists]:
        """Returns the words of sections in files, and of later changes; none if the index has none."""
        return [part.words for part in self._searched()[1:] if part.words is not None]

    def _searched(self) -> tuple[Version, SearchedSections, SearchedSections]:
        version = version_of(self._index)
        files = self._of(self._files, version.base, sections_of)
        return version, files, self._of(self._changes, version, lambda version: _of_changes(version, files))

    def search(
        self,
        question: str,
        vector: FloatArray | None,
        excluded: Collection[int] = (),
        filter: Filter = (),
        words: QuestionWords | None = None,
    ) -> list[SectionMatch]:
        """Returns the sections that fit a question best by their words, their entities' names and their meaning.

        Args:
            question: The question.
            vector: Its vector; `None` if only words are compared.
            excluded: Rows of entities to leave out.
            filter: Which of the others may be found.
            words: The question's words, by default with weights that are learned from the files.
        """
        version, files, changes = self._searched()
        words = words or QuestionWords(question, self.lists())
        gone = {*version.removed.values(), *(row - version.start for row in excluded)}
        of_files = files.search(words, vector, gone, version.base.fields.among(filter) if filter else None)
        moved = [match._replace(row=match.row + version.start) for match in of_files]
        unfit = {entry.row for entry in version.entries.values() if not fits(entry.change.entity, filter)}
        return [*moved, *changes.search(words, vector, {*excluded, *unfit})]

    @staticmethod
    def _of(
        parts: MutableMapping[T, SearchedSections], key: T, open_part: Callable[[T], SearchedSections]
    ) -> SearchedSections:
        if (part := parts.get(key)) is None:
            part = parts[key] = open_part(key)
        return part


class SearchedSections:
    """Sections that are searched together.

    Args:
        words: Their words and names; `None` if the index has none.
        vectors: Their vectors; `None` if the index has none.
    """

    def __init__(self, words: InvertedLists | None, vectors: SectionVectors | None) -> None:
        self.words, self.vectors = words, vectors
        self._rows = np.empty(0, np.int64) if words is None else words.documents["row"].astype(np.int64)

    def search(
        self,
        question: QuestionWords,
        vector: FloatArray | None,
        left_out: Collection[int],
        among: BoolArray | None = None,
    ) -> list[SectionMatch]:
        """Returns the best sections by words and by meaning, of the entities `among` all that are not left out."""
        by_words, cosines = dict[Place, tuple[float | None, float]](), dict[Place, float]()
        scores = None if self.words is None else question.scores(self.words)
        if scores is not None:
            by_words = self._best(scores, left_out, among)
        if vector is not None and self.vectors is not None:
            cosines = self.vectors.nearest(vector, BEST, left_out, among)
            cosines |= self.vectors.cosines(vector, [place for place in by_words if place not in cosines])
        if scores is not None:
            by_words |= {place: self._at(scores, self._number(place)) for place in cosines if place not in by_words}
        none: tuple[float | None, float] = (None, 0.0)
        places = dict.fromkeys([*by_words, *cosines])
        return [SectionMatch(*place, *by_words.get(place, none), cosines.get(place)) for place in places]

    def _best(
        self, scores: tuple[FloatArray, FloatArray], left_out: Collection[int], among: BoolArray | None
    ) -> dict[Place, tuple[float | None, float]]:
        every = scores[0] + scores[1]
        if among is not None:
            every[~among[self._rows]] = 0
        for row in left_out:
            every[slice(*np.searchsorted(self._rows, [row, row + 1]))] = 0
        most = min(BEST, len(every))
        numbers = np.argpartition(-every, most - 1)[:most] if most else np.empty(0, np.int64)
        numbers = numbers[every[numbers] > 0]
        places = zip(self._rows[numbers].tolist(), numbers.tolist(), strict=True)
        return {(row, number - self._number((row, 0))): self._at(scores, number) for row, number in places}

    def _number(self, place: Place) -> int:
        return int(np.searchsorted(self._rows, place[0])) + place[1]

    def _at(self, scores: tuple[FloatArray, FloatArray], number: int) -> tuple[float | None, float]:
        return float(scores[0][number]), float(scores[1][number])


def _has_words(index: Index) -> bool:
    return index.manifest.inputs.columns.get(SECTION_WORDS) == FINGERPRINT


def sections_of(index: Index) -> SearchedSections:
    """Returns the sections in the files of an index."""
    columns, folder = index.manifest.inputs.columns, index.folder
    if not _has_words(index):
        found = "by meaning alone" if SECTION_VECTORS.name in index.manifest.inputs.columns else "not at all"
        logger.warning(
            "%s: was built without the words of its sections, so questions without an image are searched %s; %s, "
            "which only adds this",
            index.folder,
            found,
            REBUILD,
        )
    words = InvertedLists.open(folder, _LAYOUT) if _has_words(index) else None
    if SECTION_VECTORS.name not in columns:
        return SearchedSections(words, None)
    values, keys = (map_array(folder / name) for name in SECTION_VECTORS.files)
    return SearchedSections(words, SectionVectors(values, keys))


def _of_changes(version: Version, files: SearchedSections) -> SearchedSections:
    entries = sorted(version.entries.values(), key=lambda entry: entry.row)
    words = vectors = None
    if files.words is not None:
        documents = (document for entry in entries for document in documents_of(entry.row, entry.change.entity))
        words = files.words.of_others(documents)
    if files.vectors is not None:
        nothing = np.empty((0, files.vectors.dimension), np.int8), np.empty(0, np.int64)
        stored = [
            (entry.row, entry.change.columns[SECTION_VECTORS.name])
            for entry in entries
            if SECTION_VECTORS.name in entry.change.columns
        ]
        values = np.concatenate([nothing[0], *(encoded.values for _, encoded in stored)])
        keys = np.concatenate([nothing[1], *(row * SPREAD + encoded.parts for row, encoded in stored)])
        vectors = SectionVectors(values, keys)
    return SearchedSections(words, vectors)
