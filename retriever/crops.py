"""Searches parts of images that are not recognized as a whole: what they show may fill only a part of the frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from retriever.looks import Retrieve, bar_of, best_looks, highest, showing, with_looks
from retriever.recognition import Recognition, is_declined
from retriever.types import Crop, Query, RetrievalResult


def _grid(side: float, places: int) -> list[Crop]:
    """Returns crops with this share of the image's sides, at so many places in each direction."""
    steps = [number * (1 - side) / (places - 1) for number in range(places)]
    return [(x, y, x + side, y + side) for y in steps for x in steps]


CROPS = (*_grid(0.75, 3), *_grid(0.55, 3))
"""Crops that go through the first step if nothing proposes any."""
PROPOSALS = (*_grid(0.5, 5), *_grid(0.625, 4), *_grid(0.75, 3))
"""Crops to propose from, and how many of them go through the first step."""
PROPOSED = 2
UNSURE = 0.4
"""From this probability on, a crop that does not count is looked at once more."""
_NEARBY = (
    *((0.85, x, y) for x, y in ((0.0, 0.0), (-0.07, 0.0), (0.07, 0.0), (0.0, -0.07), (0.0, 0.07))),
    *((1.0, x, y) for x, y in ((-0.06, 0.0), (0.06, 0.0), (0.0, -0.06), (0.0, 0.06))),
    (1.15, 0.0, 0.0),
)
"""The second look: how large crops are, compared with the first, and how far beside it, as shares of the image."""
_QUERIES = 4  # whose crops are in memory at once

Propose = Callable[[Query, Sequence[Crop]], Sequence[float]]
"""Estimates how high the best candidate of each crop of a query's image scores in the first step."""


def retrieve_crops(
    retrieve: Retrieve,
    declined: Mapping[int, Query],
    results: Sequence[RetrievalResult],
    recognition: Recognition,
    gain: float,
    propose: Propose | None = None,
) -> list[RetrievalResult]:
    """Searches with crops of the images that were declined; returns the results, better ones in the place of these.

    The proposed crops go through the first step, and the one whose best candidate scores highest there through all
    steps if that is higher by `gain` than for the whole image. If it is nearly recognized, crops around it do the same.

    Args:
        retrieve: Runs the steps.
        declined: The queries whose images were declined, by their numbers; those recognized in `results` are left out.
        results: The results so far.
        recognition: What `recognized` was estimated with.
        gain: How much higher than the whole image a crop must score in the first step.
        propose: Says which of `PROPOSALS` are promising; without it, `CROPS` go through the first step.
    """
    left = [number for number in declined if is_declined(results[number].recognized, recognition.threshold)]
    spent: list[dict[str, float]] = []
    found: dict[int, RetrievalResult] = {}
    for start in range(0, len(left), _QUERIES):
        small = {number: declined[number] for number in left[start : start + _QUERIES]}
        bars = {number: highest(results[number]) + gain for number in small}
        started = time.perf_counter()
        crops = {
            number: _proposed(propose, query, bars[number]) if propose else CROPS for number, query in small.items()
        }
        spent.append({next(iter(results[0].timings_ms)): (time.perf_counter() - started) * 1000})
        looks = best_looks(retrieve, _cut(small, crops), bars, spent)
        found |= {number: replace(look.result, crop=crops[number][look.number]) for number, look in looks.items()}
        unsure = {
            number: look
            for number, look in looks.items()
            if UNSURE <= (look.result.recognized or 0.0) < bar_of(recognition)
        }
        nearby = {number: _around(crops[number][look.number]) for number, look in unsure.items()}
        looks = best_looks(retrieve, _cut(small, nearby), {n: look.score for n, look in unsure.items()}, spent)
        found |= {number: replace(look.result, crop=nearby[number][look.number]) for number, look in looks.items()}
    return with_looks(results, found, recognition, spent)


def _proposed(propose: Propose, query: Query, bar: float) -> list[Crop]:
    """Returns the most promising crops, the first best; none if none is estimated to score higher than `bar`."""
    scores = propose(query, PROPOSALS)
    order = sorted(range(len(PROPOSALS)), key=lambda number: -scores[number])
    return [PROPOSALS[number] for number in order[:PROPOSED]] if scores[order[0]] > bar else []


def _around(crop: Crop) -> list[Crop]:
    """Returns crops like the given one: smaller, larger, and beside it."""
    left, top, right, bottom = crop
    found = []
    for factor, aside, down in _NEARBY:
        wide, high = min(1.0, (right - left) * factor), min(1.0, (bottom - top) * factor)
        x = min(max(0.0, (left + right - wide) / 2 + aside), 1 - wide)
        y = min(max(0.0, (top + bottom - high) / 2 + down), 1 - high)
        found.append((x, y, x + wide, y + high))
    return found


def _cut(queries: Mapping[int, Query], crops: Mapping[int, Sequence[Crop]]) -> dict[int, list[Query]]:
    return {number: [_part(queries[number], crop) for crop in parts] for number, parts in crops.items()}


def _part(query: Query, crop: Crop) -> Query:
    image, (left, top, right, bottom) = query.image, crop
    across, down = _pixels(left, right, image.width), _pixels(top, bottom, image.height)
    return showing(query, image.crop((across[0], down[0], across[1], down[1])), f"crop {crop}")


def _pixels(low: float, high: float, side: int) -> tuple[int, int]:
    """Returns the first pixel of a part of a side, and the one behind the last; there is at least one between."""
    first = min(round(low * side), side - 1)
    return first, max(round(high * side), first + 1)
