"""Turns images that are not recognized: cameras lie on their side, and things on a table are seen from every side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from PIL import Image

from retriever.looks import Refine, Retrieve, best_looks, highest, showing, with_looks
from retriever.recognition import Recognition
from retriever.types import Crop, Query, RetrievalResult

TURNS: tuple[Literal[90, 180, 270], ...] = (90, 180, 270)
"""Degrees clockwise."""
_CLOCKWISE = (Image.Transpose.ROTATE_270, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90)  # Pillow turns left


def retrieve_turned(
    retrieve: Retrieve,
    queries: Sequence[Query],
    declined: Mapping[int, Query],
    results: Sequence[RetrievalResult],
    recognition: Recognition,
    gain: float,
    refine: Refine | None = None,
) -> list[RetrievalResult]:
    """Searches with images turned by `TURNS`; returns the results, better ones in the place of these.

    All go through the first step at once, and the best of an image through all steps if it scores that much higher.
    What is printed upside down was not read before, so that one is read, too.

    Args:
        retrieve: Runs the steps.
        queries: All queries.
        declined: Those whose images to turn, by their numbers, with small images.
        results: The results by the images as they are.
        recognition: What `recognized` was estimated with.
        gain: How much higher than the image as it is a turned one must score in the first step.
        refine: Improves results by the words on images.
    """
    looks = {number: [_turned(query, place) for place in range(len(TURNS))] for number, query in declined.items()}
    bars = {number: highest(results[number]) + gain for number in declined}
    spent: list[dict[str, float]] = []
    best = best_looks(retrieve, looks, bars, spent)
    found = [replace(look.result, timings_ms=dict.fromkeys(look.result.timings_ms, 0.0)) for look in best.values()]
    if refine is not None and found:
        large = [_turned(queries[number], look.number) for number, look in best.items()]
        small = [looks[number][look.number] for number, look in best.items()]
        found = refine(retrieve, large, small, found, recognition)
        spent.append(found[0].timings_ms)
    turned = {number: _back(result, best[number].number) for number, result in zip(best, found, strict=True)}
    return with_looks(results, turned, recognition, spent)


def _turned(query: Query, place: int) -> Query:
    return showing(query, query.image.transpose(_CLOCKWISE[place]), f"turned {TURNS[place]}")


def _back(result: RetrievalResult, place: int) -> RetrievalResult:
    """Returns the result of a turned image as one of the image as it was: with the boxes of its text there."""
    lines = result.text
    if lines is not None:
        lines = tuple(replace(line, box=unturned(line.box, TURNS[place])) for line in lines)
    return replace(result, turned=TURNS[place], text=lines)


def unturned(box: Crop, degrees: Literal[90, 180, 270]) -> Crop:
    """Returns a part of an image that was turned clockwise by so many degrees as a part of the image as it was."""
    left, top, right, bottom = box
    return {
        90: (top, 1 - right, bottom, 1 - left),
        180: (1 - right, 1 - bottom, 1 - left, 1 - top),
        270: (1 - bottom, left, 1 - top, right),
    }[degrees]
