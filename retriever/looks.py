"""Second looks at images that are declined: turned (`retriever.turning`), or only a part (`retriever.crops`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from PIL import Image

from retriever.image_cache import content_of, set_content
from retriever.recognition import Recognition, is_declined
from retriever.types import Query, RetrievalResult

GAIN = 0.05
"""How much higher than the whole image a look must score in the first step, by an encoder that proposes parts.

What fills only a part of the frame scores .05 to .36 higher there, two fifths of the images of something else less.
With other encoders, any gain counts.
"""
_NUMBERS = itertools.count()
_SIDE = 512  # pixels of the longer side of the image that is turned and cut, at least; models' inputs are smaller

Retrieve = Callable[[Sequence[Query], int | None], list[RetrievalResult]]
"""Returns one result per query, after so many steps."""
Refine = Callable[
    [Retrieve, Sequence[Query], Sequence[Query], Sequence[RetrievalResult], Recognition], list[RetrievalResult]
]
"""Returns better results where it has any, given the queries, and these without borders."""


class Look(NamedTuple):
    """The best of the looks at an image, by the first step: its number, its score there, its result by all steps."""

    number: int
    score: float
    result: RetrievalResult


def declined(
    queries: Sequence[Query], results: Sequence[RetrievalResult], recognition: Recognition
) -> dict[int, Query]:
    """Returns the queries to look at again, by their numbers, with small images; none without a `crop_threshold`."""
    if recognition.crop_threshold is None:
        return {}
    unknown = [is_declined(result.recognized, recognition.threshold) for result in results]
    return {number: _small(queries[number]) for number, is_unknown in enumerate(unknown) if is_unknown}


def _small(query: Query) -> Query:
    times = max(query.image.size) // _SIDE
    return query if times < 2 else showing(query, query.image.reduce(times), "small")


def with_key(query: Query) -> Query:
    """Returns a query whose image has a key, so that what is computed from it is kept for further looks at it."""
    if content_of(query.image) is not None:
        return query
    image = query.image.copy()  # whoever has the image may change it
    set_content(image, f"query {next(_NUMBERS)}")
    return replace(query, image=image)


def showing(query: Query, image: Image.Image, name: str) -> Query:
    """Returns a query with an image that is made of its own in the way that `name` says."""
    if (content := content_of(query.image)) is not None:
        set_content(image, f"{content} {name}")
    return replace(query, image=image)


def highest(result: RetrievalResult) -> float:
    """Returns the best score of the first step."""
    return max((candidate.sim_c or 0.0 for candidate in result.candidates), default=0.0)


def best_looks(
    retrieve: Retrieve,
    looks: Mapping[int, Sequence[Query]],
    bars: Mapping[int, float],
    spent: list[dict[str, float]],
) -> dict[int, Look]:
    """Returns the best look at each query's image, by the first step, where it scores higher there than a bar.

    Args:
        retrieve: Runs the steps.
        looks: The queries with each look, by the number of the query.
        bars: The bars, by the number of the query.
        spent: The milliseconds of the steps are added to these.
    """
    every = [(number, place) for number, queries in looks.items() for place in range(len(queries))]
    if not every:
        return {}
    coarse = retrieve([looks[number][place] for number, place in every], 1)
    spent.append(coarse[0].timings_ms)
    best: dict[int, tuple[int, float]] = {}
    for (number, place), result in zip(every, coarse, strict=True):
        if (score := highest(result)) > best.get(number, (0, bars[number]))[1]:
            best[number] = place, score
    if not best:
        return {}
    fine = retrieve([looks[number][place] for number, (place, _) in best.items()], None)
    spent.append(fine[0].timings_ms)
    return {number: Look(*of, result) for (number, of), result in zip(best.items(), fine, strict=True)}


def bar_of(recognition: Recognition) -> float:
    """Returns the probability from which on a look counts."""
    return max(recognition.crop_threshold or 0.0, recognition.threshold)


def with_looks(
    results: Sequence[RetrievalResult],
    looks: Mapping[int, RetrievalResult],
    recognition: Recognition,
    spent: Iterable[dict[str, float]],
) -> list[RetrievalResult]:
    """Returns the results, with those by looks that count in their places; the text stays if a look has none.

    A look counts if it is recognized, also with `Recognition.crop_threshold`: the best of many looks scores higher by
    chance than one image, so this is more than for a whole image.

    Args:
        results: The results so far.
        looks: The results by the best looks, by the number of the query.
        recognition: What `recognized` was estimated with.
        spent: The milliseconds that all looks took, by step.
    """
    better = {
        number: replace(result, text=result.text or results[number].text, reading=results[number].reading)
        for number, result in looks.items()
        if (result.recognized or 0.0) >= bar_of(recognition)
    }
    return [
        replace(better.get(number, result), timings_ms=summed([result.timings_ms, *spent]))
        for number, result in enumerate(results)
    ]


def summed(timings: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns the milliseconds of each step over several runs."""
    steps = dict.fromkeys(step for run in timings for step in run)
    return {step: sum(run.get(step, 0.0) for run in timings) for step in steps}
