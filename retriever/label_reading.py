"""Reads what stands on images that the steps are not sure of, or that a question is for, and searches with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from PIL import Image
from torch import Tensor

from retriever.fusion import WORDS
from retriever.looks import Retrieve, summed
from retriever.protocols import TextReader
from retriever.recognition import Recognition, is_declined
from retriever.text_questions import TextQuestions
from retriever.turning import unturned
from retriever.types import Candidate, Filter, FloatArray, Query, Reading, RetrievalResult, TextLine

FEWEST = 3
"""Fewer letters and figures on an image are no text: patterns and edges look like one or two."""
NEAREST = 5
"""The best candidates, one of which must have text on its images: reading costs more than the search."""
GLANCE = 448
"""Pixels of the longer side in which words to search by are read: of 217 other angles 184 were right, at 640 pixels 187
in 1.35 times the time, at 352 pixels 180."""
LEGIBLE = 0.8
"""Lines that are read less surely are no answer: 4 of 25 were right, on photographs of packages, films and bottles."""


def joined(lines: Sequence[TextLine]) -> str:
    """Returns the text on an image; empty if it has fewer than `FEWEST` letters and figures."""
    text = "\n".join(line.text for line in lines)
    return text if sum(map(str.isalnum, text)) >= FEWEST else ""


class TextIndex(Protocol):
    """What an index knows of the text on images of its entities."""

    def has_text(self, row: int) -> bool:
        """Returns whether text was read on an image of an entity."""

    def similar(self, text: str, k: int, rows: Iterable[int] = (), filter: Filter = ()) -> dict[int, float]:
        """Returns how similar texts and names of entities are: of the `k` best that fit, and of those at `rows`."""

    def scores_of(self, vector: Tensor, rows: Sequence[int]) -> list[float]:
        """Returns the scores that the index's `search` gives entities."""


class LabelReading:
    """Reads labels, covers and signs (implements `retriever.pipeline.Refine` and `retriever.step1_search.AddByText`).

    Args:
        index: The texts of the index that is searched.
        reader: Reads the text in images.
        weight: Weight of the similarity of words, which step 1 adds to the score of the image.

    Attributes:
        encode: Returns the vectors of questions, by which those about the text are told; without it, none is.
    """

    encode: Callable[[Sequence[str]], FloatArray] | None = None

    def __init__(self, index: TextIndex, reader: TextReader, weight: float = WORDS) -> None:
        self.index, self.reader, self.weight = index, reader, weight

    @cached_property
    def _questions(self) -> TextQuestions | None:
        return None if self.encode is None else TextQuestions(self.encode)

    def _readings(self, queries: Sequence[Query]) -> list[Reading | None]:
        if self._questions is None:
            return [None] * len(queries)
        return self._questions.kinds([query.question for query in queries])

    def refine(
        self,
        retrieve: Retrieve,
        queries: Sequence[Query],
        shown: Sequence[Query],
        results: Sequence[RetrievalResult],
        recognition: Recognition,
    ) -> list[RetrievalResult]:
        """Reads the text on images, searches them again by it, and returns the results, with the text.

        An image is read if it is not recognized surely, and one of the `NEAREST` candidates has text on its images:
        only then are words likely to change the verdict. If the question is about the text, it is only read.

        Args:
            retrieve: Runs the steps.
            queries: The queries.
            shown: These as the steps get them, without borders.
            results: Their results by the images alone.
            recognition: What `recognized` was estimated with.
        """
        readings = self._readings(queries)
        unsure = [self._is_unsure(result, recognition) for result in results]
        legible = [number for number, reading in enumerate(readings) if reading or unsure[number]]
        if not legible:
            return list(results)
        started = time.perf_counter()
        lines = self._read(queries, [number for number in legible if not readings[number]], GLANCE)
        for number, own in self._read(queries, [number for number in legible if readings[number]]).items():
            lines[number] = self._either_way_up(queries[number].image, own)
        spent = [{"read": (time.perf_counter() - started) * 1000}]
        texts = {number: tuple(own) if joined(own) else () for number, own in lines.items()}
        found = [
            replace(result, text=texts.get(number), reading=reading)
            for number, (result, reading) in enumerate(zip(results, readings, strict=True))
        ]
        written = [number for number in legible if unsure[number] and texts[number]]
        again = retrieve([replace(shown[number], text=texts[number]) for number in written], None) if written else []
        for number, after in zip(written, again, strict=True):
            by_text = _is_by_text(results[number], after, recognition.threshold)
            found[number] = replace(after, text=texts[number], by_text=by_text, reading=readings[number])
        spent += [result.timings_ms for result in again[:1]]  # of the whole batch
        pairs = zip(results, found, strict=True)
        return [replace(after, timings_ms=summed([before.timings_ms, *spent])) for before, after in pairs]

    def _read(self, queries: Sequence[Query], numbers: list[int], side: int | None = None) -> dict[int, list[TextLine]]:
        lines = self.reader.read([queries[n].image for n in numbers], side) if numbers else []
        return dict(zip(numbers, lines, strict=True))

    def _either_way_up(self, image: Image.Image, lines: list[TextLine]) -> list[TextLine]:
        """Returns the lines of an image, or those of the image upside down if most are unsure, and fewer there."""
        if 2 * _letters(lines, LEGIBLE) > _letters(lines):
            return lines
        [turned] = self.reader.read([image.transpose(Image.Transpose.ROTATE_180)])
        if _letters(turned, LEGIBLE) <= _letters(lines, LEGIBLE):
            return lines
        return [replace(line, box=unturned(line.box, 180)) for line in turned]

    def _is_unsure(self, result: RetrievalResult, recognition: Recognition) -> bool:
        if result.recognized is None or not recognition.is_unsure(result.candidates):
            return False
        return any(self.index.has_text(candidate.row) for candidate in result.candidates[:NEAREST])

    def add(self, query: Query, vector: Tensor, candidates: Sequence[Candidate], k: int) -> list[Candidate]:
        """Returns the best candidates by image and words together, of those of the image and those of the words.

        Args:
            query: A query with text.
            vector: Its image's vector.
            candidates: The candidates by the image alone.
            k: How many to return.
        """
        text, excluded = joined(query.text), set(query.options.exclude)
        rows = [candidate.row for candidate in candidates]
        similar = self.index.similar(text, k + len(excluded), rows, query.options.filter)
        new = sorted(similar.keys() - excluded - set(rows))
        lowest = min((one.sim_p for one in candidates if one.sim_p is not None), default=None)
        scores = zip(new, self.index.scores_of(vector, new), strict=True)
        every = [*candidates, *(Candidate(row, sim_c, score=sim_c, sim_p=lowest) for row, sim_c in scores)]
        for candidate in every:
            candidate.sim_w = similar.get(candidate.row)
            candidate.score += self.weight * (candidate.sim_w or 0.0)
        return sorted(every, key=lambda candidate: -candidate.score)[:k]


def _letters(lines: Sequence[TextLine], confidence: float = 0.0) -> int:
    """Returns the number of characters that are read with at least a confidence."""
    return sum(len(line.text) for line in lines if line.confidence >= confidence)


def _is_by_text(before: RetrievalResult, after: RetrievalResult, threshold: float) -> bool:
    """Returns whether an entity is recognized that was not without the words."""
    if is_declined(after.recognized, threshold) or not after.candidates:
        return False
    return is_declined(before.recognized, threshold) or before.candidates[0].row != after.candidates[0].row
