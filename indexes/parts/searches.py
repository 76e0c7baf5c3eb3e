"""Searches the parts of an index by words: each scores with weights that are learned from the documents of all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from torch import Tensor

from indexes.parts.index import PartedIndex
from indexes.parts.messages import write
from indexes.parts.weights import SharedWeights
from indexes.store.grams import grams
from indexes.store.image_text import IMAGE_TEXT
from indexes.store.keys import as_query
from indexes.store.postings import TermArray
from indexes.store.section_words import FINGERPRINT, SECTION_WORDS, terms_in
from retriever.section_search import SectionMatch
from retriever.types import Filter, FloatArray


def _weights(index: PartedIndex, column: str, terms: TermArray) -> SharedWeights:
    """Counts the documents of all parts that have each of some terms."""
    answers = index.ask("weights", write({"terms": terms}, column=column))
    return SharedWeights.joined(map(SharedWeights.read, answers.values()))


class PartedSections:
    """Finds sections of an index in parts (implements `retriever.section_search.SectionIndex`).

    Args:
        index: The index.
    """

    def __init__(self, index: PartedIndex) -> None:
        self._index = index

    def search(
        self, question: str, vector: FloatArray | None, excluded: Collection[int] = (), filter: Filter = ()
    ) -> list[SectionMatch]:
        """Returns the sections that fit a question best, see `indexes.live.section_search.IndexSections`."""
        index, view, matches = self._index, self._index.view, list[SectionMatch]()
        has_words = index.manifest.inputs.columns.get(SECTION_WORDS) == FINGERPRINT
        weights = _weights(index, SECTION_WORDS, terms_in(question)) if has_words else SharedWeights.none()
        values = {"question": question, "vector": None if vector is None else vector.tolist(), "filter": filter}
        asked = {n: weights.write(excluded=rows, **values) for n, rows in index.in_parts(excluded).items()}
        for number, answer in index.parts.ask("sections", asked, view.up).items():
            table = answer.columns["matches"]
            rows = index.rows_in(number, table[:, 0].astype(np.int64)).tolist()
            for row, (_, position, words, name, cosine) in zip(rows, table.tolist(), strict=True):
                matches.append(SectionMatch(row, int(position), _number(words), name, _number(cosine)))
        view.expected.update(match.row for match in matches)
        return matches


def _number(value: float) -> float | None:
    return None if value != value else value


class PartedText:
    """Finds entities of an index in parts by text (implements `retriever.label_reading.TextIndex`).

    Args:
        index: The index.
    """

    def __init__(self, index: PartedIndex) -> None:
        self._index = index

    def has_text(self, row: int) -> bool:
        """Returns whether text was read on an image of an entity."""
        encoded = self._index.column(IMAGE_TEXT, row)
        return encoded is not None and len(encoded.parts) > 0

    def similar(self, text: str, k: int, rows: Iterable[int] = (), filter: Filter = ()) -> dict[int, float]:
        """Returns how similar texts and names of entities are: of the `k` best that fit, and of those at `rows`."""
        index, every, wanted = self._index, dict[int, float](), [*rows]
        weights = _weights(index, IMAGE_TEXT, grams(text)[0])
        own = index.in_parts(wanted)
        asked = {number: weights.write(text=text, k=k, rows=some, filter=filter) for number, some in own.items()}
        for number, answer in index.parts.ask("texts", asked, index.view.up).items():
            similar = index.rows_in(number, answer.columns["rows"]).tolist()
            every |= zip(similar, answer.columns["cosines"].tolist(), strict=True)
        best = sorted(every, key=lambda row: -every[row])[:k]
        return {row: every[row] for row in dict.fromkeys([*best, *wanted]) if row in every}

    def scores_of(self, vector: Tensor, rows: Sequence[int]) -> list[float]:
        """Returns the scores that the index's `search` gives entities."""
        index, scores = self._index, dict[int, float]()
        query = as_query(vector[None].float().cpu(), index.manifest.inputs.candidates, index.image_weight)[0]
        for some, answer in index.ask_of("scores", rows, query=query.tolist()).values():
            scores |= zip(some, answer.columns["scores"].tolist(), strict=True)
        return [scores[row] for row in rows]
