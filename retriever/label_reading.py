"""Reads what stands on images that the steps are not sure of, and searches them again by these words, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from retriever.asking import EntityIndex, TextIndex
from retriever.crops import Retrieve
from retriever.protocols import ReadText
from retriever.recognition import Recognition, is_declined
from retriever.texts import joined
from retriever.types import Query, RetrievalResult

SURE = 0.9
"""From this probability on, words would not change what an image is recognized as."""


def retrieve_read(
    retrieve: Retrieve,
    read: ReadText,
    index: EntityIndex,
    queries: Sequence[Query],
    shown: Sequence[Query],
    results: Sequence[RetrievalResult],
    recognition: Recognition,
) -> list[RetrievalResult]:
    """Reads the text on images, searches them again by it, and returns the results, with the text.

    An image is read if it is not recognized surely, and what looks like it has text on its images: only then can words
    change the verdict.

    Args:
        retrieve: Runs the steps.
        read: Reads the text in images.
        index: The index.
        queries: The queries.
        shown: These as the steps get them, without borders.
        results: Their results by the images alone.
        recognition: What `recognized` was estimated with.
    """
    if not isinstance(index, TextIndex):
        return list(results)
    unsure = [
        number
        for number, result in enumerate(results)
        if result.recognized is not None
        and result.recognized < SURE
        and any(index.has_text(candidate.row) for candidate in result.candidates)
    ]
    if not unsure:
        return list(results)
    started = time.perf_counter()
    lines = read([queries[number].image for number in unsure])
    spent = {"read": (time.perf_counter() - started) * 1000}
    texts = {number: tuple(own) if joined(own) else () for number, own in zip(unsure, lines, strict=True)}
    found = [replace(result, text=texts.get(number)) for number, result in enumerate(results)]
    written = [number for number in unsure if texts[number]]
    again = retrieve([replace(shown[number], text=texts[number]) for number in written], None) if written else []
    for number, after in zip(written, again, strict=True):
        by_text = _is_by_text(results[number], after, recognition.threshold)
        found[number] = replace(after, text=texts[number], by_text=by_text)
    timings = again[0].timings_ms if again else {}
    pairs = zip(results, found, strict=True)
    return [replace(after, timings_ms=_sum(before.timings_ms, timings) | spent) for before, after in pairs]


def _is_by_text(before: RetrievalResult, after: RetrievalResult, threshold: float) -> bool:
    """Returns whether an entity is recognized that was not without the words."""
    if is_declined(after.recognized, threshold) or not after.candidates:
        return False
    return is_declined(before.recognized, threshold) or before.candidates[0].row != after.candidates[0].row


def _sum(first: dict[str, float], second: dict[str, float]) -> dict[str, float]:
    return {step: ms + second.get(step, 0.0) for step, ms in first.items()}
