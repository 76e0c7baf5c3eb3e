"""Searches parts of images that are not recognized as a whole: what they show may fill only a part of the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PIL import Image

from retriever.image_cache import content_of, set_content
from retriever.recognition import Recognition, is_declined
from retriever.types import Crop, Query, RetrievalResult

SCALES = (0.75, 0.55)
"""Sides of the crops as shares of the image's; each is at nine places."""
CROPS: tuple[Crop, ...] = tuple(
    (x * (1 - scale), y * (1 - scale), x * (1 - scale) + scale, y * (1 - scale) + scale)
    for scale in SCALES
    for y in (0.0, 0.5, 1.0)
    for x in (0.0, 0.5, 1.0)
)
_SIDE = 512  # pixels of the longer side from which crops are cut; their models' inputs are smaller than the crops
_QUERIES = 4  # whose crops are in memory at once

Retrieve = Callable[[Sequence[Query], int | None], list[RetrievalResult]]
"""Returns one result per query, after so many steps."""


def retrieve_crops(
    retrieve: Retrieve, queries: Sequence[Query], results: Sequence[RetrievalResult], recognition: Recognition
) -> list[RetrievalResult]:
    """Searches with crops of the images that were declined; returns the results, better ones in the place of these.

    All crops go through the first step, and the one whose best candidate scores highest there through all steps. Its
    result counts if it is recognized with `Recognition.crop_threshold`: the best of many crops scores higher by chance
    than one image, so this is more than for a whole image.

    Args:
        retrieve: Runs the steps.
        queries: The queries.
        results: Their results by the whole images.
        recognition: What `recognized` was estimated with.
    """
    threshold = recognition.crop_threshold
    if threshold is None:
        return list(results)
    found = list(results)
    declined = [
        number for number, result in enumerate(results) if is_declined(result.recognized, recognition.threshold)
    ]
    spent: list[dict[str, float]] = []
    for start in range(0, len(declined), _QUERIES):
        numbers = declined[start : start + _QUERIES]
        crops = [crop for number in numbers for crop in _crops_of(queries[number])]
        coarse = retrieve(crops, 1)
        chosen = [_best(coarse, first) for first in range(0, len(crops), len(CROPS))]
        fine = retrieve([crops[one] for one in chosen], None)
        spent += [coarse[0].timings_ms, fine[0].timings_ms]
        for number, result, crop in zip(numbers, fine, chosen, strict=True):
            if (result.recognized or 0.0) >= threshold:
                found[number] = replace(result, crop=CROPS[crop % len(CROPS)])
    return [
        replace(result, timings_ms=_sum([whole.timings_ms, *spent]))
        for whole, result in zip(results, found, strict=True)
    ]


def _sum(timings: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns the milliseconds of each step over several runs."""
    return {step: sum(run.get(step, 0.0) for run in timings) for step in timings[0]}


def _crops_of(query: Query) -> list[Query]:
    image, content = query.image, content_of(query.image)
    scale = min(1.0, _SIDE / max(image.size))
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    found = []
    for number, (left, top, right, bottom) in enumerate(CROPS):
        edges = (round(left * width), round(top * height), round(right * width), round(bottom * height))
        crop = small.crop(edges)
        if content is not None:
            set_content(crop, f"{content} crop {number}")
        found.append(replace(query, image=crop))
    return found


def _best(results: Sequence[RetrievalResult], first: int) -> int:
    """Returns the crop that goes through all steps, among those of one image, from number `first` on."""
    own = range(first, first + len(CROPS))
    return max(own, key=lambda one: max((c.score for c in results[one].candidates), default=0.0))
