"""Searches an index, with its later changes, by the text on images (`indexes.image_text`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from torch import Tensor

from indexes.live.reading import keys_of, version_of
from indexes.live.version import Version
from indexes.store.image_text import IMAGE_TEXT, documents_of, encode_texts
from indexes.store.index import Index
from indexes.store.keys import as_query
from indexes.store.postings import InvertedLists, Learned
from indexes.store.word_search import WordSearch
from retriever.filters import fits
from retriever.types import Filter, FloatArray


class IndexText:
    """Finds entities of an index by text (implements `retriever.label_reading.TextIndex`); thread-safe.

    Args:
        index: An index that has the column.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._files: WeakKeyDictionary[Index, WordSearch] = WeakKeyDictionary()
        self._changes: WeakKeyDictionary[Version, WordSearch] = WeakKeyDictionary()

    def has_text(self, row: int) -> bool:
        """Returns whether text was read on an image of an entity."""
        encoded = self._index.column(IMAGE_TEXT, row)
        return encoded is not None and len(encoded.parts) > 0

    def lists(self) -> list[InvertedLists]:
        """Returns the words of entities in files, and of later changes."""
        version = version_of(self._index)
        return [self._of(version.base).lists, self._changed(version).lists]

    def similar(
        self, text: str, k: int, rows: Iterable[int] = (), filter: Filter = (), learned: Learned | None = None
    ) -> dict[int, float]:
        """Returns how similar the text on images of entities and their names are to a text, from 0 to 1, by their rows.

        These are the `k` most similar that fit a filter, best first, and those at `rows`. Weights are `learned` from
        the files unless given.
        """
        version, wanted = version_of(self._index), list(rows)
        changed, gone = {entry.row for entry in version.entries.values()}, set(version.removed.values())
        of_files = [row - version.start for row in wanted if row not in changed]
        among = version.base.fields.among(filter) if filter else None
        words, new_words = self._of(version.base), self._changed(version)
        if learned is not None:
            words, new_words = (WordSearch(own.lists.with_weights(learned)) for own in (words, new_words))
        found = words.similar(text, k + len(gone), of_files, among)
        every = {row + version.start: value for row, value in found.items() if row not in gone}
        unfit = {entry.row for entry in version.entries.values() if not fits(entry.change.entity, filter)}
        new = new_words.similar(text, k + len(unfit), [row for row in wanted if row in changed])
        every |= {row: value for row, value in new.items() if row not in unfit}
        best = sorted(every, key=lambda row: -every[row])[:k]
        return {row: every[row] for row in dict.fromkeys([*best, *wanted]) if row in every}

    def scores_of(self, vector: Tensor, rows: Sequence[int]) -> list[float]:
        """Returns the scores that `Index.search` gives entities, from the stored vectors; 0 for those without a key."""
        version = version_of(self._index)
        candidates, weight = version.base.manifest.inputs.candidates, version.base.image_weight
        return self.scores_of_query(as_query(vector[None].float().cpu(), candidates, weight)[0].numpy(), rows)

    def scores_of_query(self, query: FloatArray, rows: Sequence[int]) -> list[float]:
        """Returns the scores of entities like `scores_of`, for a query [length of a key] (`indexes.store.keys`)."""
        return [float((keys_of(self._index, row) @ query).max(initial=0)) for row in rows]

    def _of(self, base: Index) -> WordSearch:
        if (words := self._files.get(base)) is None:
            words = self._files[base] = WordSearch.open(base.folder)
        return words

    def _changed(self, version: Version) -> WordSearch:
        """Returns the search of changed entities, with the weights of words in the files."""
        if (search := self._changes.get(version)) is None:
            nothing = encode_texts({})
            entries = sorted(version.entries.values(), key=lambda entry: entry.row)
            own = ((entry.row, entry.change.entity, entry.change.columns.get(IMAGE_TEXT, nothing)) for entry in entries)
            documents = (document for entry in own for document in documents_of(*entry))
            search = self._changes[version] = self._of(version.base).with_weights(documents)
        return search
