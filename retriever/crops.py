"""Searches parts of images that are not recognized as a whole: what they show may fill only a part of the frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
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
    steps. If it is nearly recognized, crops around it do the same. A result counts if it is recognized, also with
    `Recognition.crop_threshold`: the best of many crops scores higher by chance than one image, so this is more than
    for a whole image.

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
        numbers = declined[start : start + _QUERIES]
        small = {number: _small(queries[number]) for number in numbers}
        started = time.perf_counter()
        crops = [_proposed(propose, small[number]) if propose else CROPS for number in numbers]
        spent.append({next(iter(results[0].timings_ms)): (time.perf_counter() - started) * 1000})
        looks = dict(zip(numbers, _look(retrieve, list(small.values()), crops, spent), strict=True))
        unsure = [number for number in numbers if UNSURE <= (looks[number].result.recognized or 0.0) < threshold]
        nearby = [_around(looks[number].crop) for number in unsure]
        again = _look(retrieve, [small[number] for number in unsure], nearby, spent)
        for number, second in zip(unsure, again, strict=True):
            looks[number] = max(looks[number], second, key=lambda look: look.score)
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


def _proposed(propose: Propose, query: Query) -> list[Crop]:
    scores = propose(query, PROPOSALS)
    order = sorted(range(len(PROPOSALS)), key=lambda number: -scores[number])
    return [PROPOSALS[number] for number in order[:PROPOSED]]


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
    retrieve: Retrieve, queries: Sequence[Query], crops: Sequence[Sequence[Crop]], spent: list[dict[str, float]]
) -> list[_Look]:
    """Returns the best crop of each query, by the first step; adds the milliseconds of the steps to `spent`."""
    if not queries:
        return []
    cut = [_cut(query, crop) for query, own in zip(queries, crops, strict=True) for crop in own]
    coarse = retrieve(cut, 1)
    scores = [max((candidate.score for candidate in result.candidates), default=0.0) for result in coarse]
    ends = list(accumulate(map(len, crops), initial=0))
    chosen = [max(range(start, end), key=scores.__getitem__) for start, end in pairwise(ends)]
    fine = retrieve([cut[number] for number in chosen], None)
    spent += [coarse[0].timings_ms, fine[0].timings_ms]
    boxes = [crop for own in crops for crop in own]
    return [_Look(boxes[number], scores[number], result) for number, result in zip(chosen, fine, strict=True)]


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
