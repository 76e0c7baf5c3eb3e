"""Turns images that are not recognized: cameras lie on their side, and things on a table are seen from every side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from PIL import Image

from retriever.looks import Retrieve, best_looks, highest, showing, with_looks
from retriever.recognition import Recognition
from retriever.types import Query, RetrievalResult

TURNS: tuple[Literal[90, 180, 270], ...] = (90, 180, 270)
"""Degrees clockwise."""
_CLOCKWISE = (Image.Transpose.ROTATE_270, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_90)  # Pillow turns left


def retrieve_turned(
    retrieve: Retrieve,
    declined: Mapping[int, Query],
    results: Sequence[RetrievalResult],
    recognition: Recognition,
    gain: float,
) -> list[RetrievalResult]:
    """Searches with images turned by `TURNS`; returns the results, better ones in the place of these.

    All go through the first step at once, and the best of an image through all steps if it scores that much higher.

    Args:
        retrieve: Runs the steps.
        declined: The queries whose images to turn, by their numbers.
        results: The results by the images as they are.
        recognition: What `recognized` was estimated with.
        gain: How much higher than the image as it is a turned one must score in the first step.
    """
    looks = {number: [_turned(query, place) for place in range(len(TURNS))] for number, query in declined.items()}
    bars = {number: highest(results[number]) + gain for number in declined}
    spent: list[dict[str, float]] = []
    best = best_looks(retrieve, looks, bars, spent)
    turned = {number: replace(look.result, turned=TURNS[look.number]) for number, look in best.items()}
    return with_looks(results, turned, recognition, spent)


def _turned(query: Query, place: int) -> Query:
    return showing(query, query.image.transpose(_CLOCKWISE[place]), f"turned {TURNS[place]}")
