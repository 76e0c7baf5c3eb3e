"""Searches parts of images that are not recognized as a whole: what they show may fill only a part of the frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from PIL import Image

from retriever.image_cache import content_of, set_content
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
GAIN = 0.05
"""How much higher than the whole image a crop must score in the first step, by the encoder that proposes.

What fills only a part of the frame scores .05 to .36 higher there, two fifths of the images of something else less.
Without proposals, any gain counts.
"""
UNSURE = 0.4
"""From this probability on, a crop that does not count is looked at once more."""
_NEARBY = (
    *((0.85, x, y) for x, y in ((0.0, 0.0), (-0.07, 0.0), (0.07, 0.0), (0.0, -0.07), (0.0, 0.07))),
    *((1.0, x, y) for x, y in ((-0.06, 0.0), (0.06, 0.0), (0.0, -0.06), (0.0, 0.06))),
    (1.15, 0.0, 0.0),
)
"""The second look: how large crops are, compared with the first, and how far beside it, as shares of the image."""
_SIDE = 512  # pixels of the longer side from which crops are cut; their models' inputs are smaller than the crops
_QUERIES = 4  # whose crops are in memory at once

Retrieve = Callable[[Sequence[Query], int | None], list[RetrievalResult]]
"""Returns one result per query, after so many steps."""
Propose = Callable[[Query, Sequence[Crop]], Sequence[float]]
"""Estimates how high the best candidate of each crop of a query's image scores in the first step."""


class _Look(NamedTuple):
    """The best of an image's crops, its best score in the first step, and its result by all steps."""

    crop: Crop
    score: float
    result: RetrievalResult


def retrieve_crops(
    retrieve: Retrieve,
    queries: Sequence[Query],
    results: Sequence[RetrievalResult],
    recognition: Recognition,
    propose: Propose | None = None,
) -> list[RetrievalResult]:
    """Searches with crops of the images that were declined; returns the results, better ones in the place of these.

    The proposed crops go through the first step, and the one whose best candidate scores highest there through all
    steps if that is higher than for the whole image (see `GAIN`). If it is nearly recognized, crops around it do the
    same. A result counts if it is recognized, also with `Recognition.crop_threshold`: the best of many crops scores
    higher by chance than one image, so this is more than for a whole image.

    Args:
        retrieve: Runs the steps.
        queries: The queries.
        results: Their results by the whole images.
        recognition: What `recognized` was estimated with.
        propose: Says which of `PROPOSALS` are promising; without it, `CROPS` go through the first step.
    """
    if recognition.crop_threshold is None:
        return list(results)
    threshold = max(recognition.crop_threshold, recognition.threshold)
    found = list(results)
    declined = [
        number for number, result in enumerate(results) if is_declined(result.recognized, recognition.threshold)
    ]
    spent: list[dict[str, float]] = []
    for start in range(0, len(declined), _QUERIES):
        small = {number: _small(queries[number]) for number in declined[start : start + _QUERIES]}
        bars = {number: _highest(results[number]) + (GAIN if propose else 0.0) for number in small}
        started = time.perf_counter()
        crops = {
            number: _proposed(propose, query, bars[number]) if propose else CROPS for number, query in small.items()
        }
        spent.append({next(iter(results[0].timings_ms)): (time.perf_counter() - started) * 1000})
        looks = _look(retrieve, small, crops, bars, spent)
        unsure = {
            number: look for number, look in looks.items() if UNSURE <= (look.result.recognized or 0.0) < threshold
        }
        nearby = {number: _around(look.crop) for number, look in unsure.items()}
        looks |= _look(retrieve, small, nearby, {number: look.score for number, look in unsure.items()}, spent)
        for number, look in looks.items():
            if (look.result.recognized or 0.0) >= threshold:
                found[number] = replace(look.result, crop=look.crop)
    return [
        replace(result, timings_ms=_sum([whole.timings_ms, *spent]))
        for whole, result in zip(results, found, strict=True)
    ]


def _sum(timings: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns the milliseconds of each step over several runs."""
    return {step: sum(run.get(step, 0.0) for run in timings) for step in timings[0]}


def _small(query: Query) -> Query:
    """Returns a query with its image at the size from which crops are cut."""
    image, content = query.image, content_of(query.image)
    scale = min(1.0, _SIDE / max(image.size))
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    if content is not None:
        set_content(small, content)
    return replace(query, image=small)


def _highest(result: RetrievalResult) -> float:
    return max((candidate.sim_c or 0.0 for candidate in result.candidates), default=0.0)


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


def _look(
    retrieve: Retrieve,
    queries: Mapping[int, Query],
    crops: Mapping[int, Sequence[Crop]],
    bars: Mapping[int, float],
    spent: list[dict[str, float]],
) -> dict[int, _Look]:
    """Returns the best crop of each query, by the first step, where it scores higher there than the query's bar.

    Adds the milliseconds of the steps to `spent`.
    """
    cut = [(number, crop) for number, own in crops.items() for crop in own]
    if not cut:
        return {}
    parts = [_cut(queries[number], crop) for number, crop in cut]
    coarse = retrieve(parts, 1)
    spent.append(coarse[0].timings_ms)
    scores = [_highest(result) for result in coarse]
    best = {number: max(places, key=scores.__getitem__) for number, places in _grouped(cut).items()}
    chosen = {number: place for number, place in best.items() if scores[place] > bars[number]}
    if not chosen:
        return {}
    fine = retrieve([parts[place] for place in chosen.values()], None)
    spent.append(fine[0].timings_ms)
    return {
        number: _Look(cut[place][1], scores[place], result)
        for (number, place), result in zip(chosen.items(), fine, strict=True)
    }


def _grouped(cut: Sequence[tuple[int, Crop]]) -> dict[int, list[int]]:
    """Returns the places of each number's crops."""
    places: dict[int, list[int]] = {}
    for place, (number, _) in enumerate(cut):
        places.setdefault(number, []).append(place)
    return places


def _cut(query: Query, crop: Crop) -> Query:
    image, (left, top, right, bottom) = query.image, crop
    across, down = _pixels(left, right, image.width), _pixels(top, bottom, image.height)
    cut = image.crop((across[0], down[0], across[1], down[1]))
    if (content := content_of(image)) is not None:
        set_content(cut, f"{content} crop {crop}")
    return replace(query, image=cut)


def _pixels(low: float, high: float, side: int) -> tuple[int, int]:
    """Returns the first pixel of a part of a side, and the one behind the last; there is at least one between."""
    first = min(round(low * side), side - 1)
    return first, max(round(high * side), first + 1)
