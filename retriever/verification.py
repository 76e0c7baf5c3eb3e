"""Verifies candidates: do keypoints of the query's image lie on one of their images as one thing would?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from retriever.models.keypoints import Keypoints
from retriever.types import FloatArray

FEWEST = 4
"""Fewer matches agree by chance."""
_RATIO = 0.9
"""A match must be this much nearer than the second nearest, in that image and in those of other things."""
_SAME = 0.005
"""Keypoints that are no farther apart than this, of the longer side, are one place with two orientations."""
_NEAR, _NEARBY = 0.025, 0.075
"""How far from its place a match may be, of the longer side, in the end and at first."""
_STRETCH, _SMALLEST, _LARGEST = 4.0, 0.15, 6.0
"""How much longer a thing may become one way than across, and its least and largest size, of what it was."""
_WIDTH = 0.12
"""Least width of where places agree, of its length: what is along a line, as on a ruler in photographs of a collection,
has no place in the plane."""
_ROUNDS = 4
_ROUNDING = 2e-3
"""Distance of equal descriptors, at most: their product is 1 to some ten units of float32's rounding."""


class _Nearest(NamedTuple):
    """For each keypoint of a query's image the nearest two of another image.

    Attributes:
        others: Which these are, int64 [N, 2].
        distances: How far their descriptors are from the query's, ascending, float32 [N, 2].
        is_mutual: Whether no other keypoint of the query's image is nearer to the first, [N].
    """

    others: NDArray[np.int64]
    distances: FloatArray
    is_mutual: NDArray[np.bool_]


def agreement(
    query: Keypoints,
    candidates: Sequence[Sequence[Keypoints]],
    elsewhere: Callable[[FloatArray], FloatArray] | None = None,
) -> list[int]:
    """Returns how many places of a query's image agree with the best image of each candidate.

    Only keypoints count that are much more like one of the candidate than like any of the rest: those of a background
    on which many things were photographed, or of the maker's mark, say little.

    Args:
        query: The keypoints of the query's image.
        candidates: Those of each candidate's images.
        elsewhere: Returns the highest cosine of each of some descriptors, [N, 128], with those of other things, [N].
    """
    if len(query.places) < FEWEST:
        return [0] * len(candidates)
    images = [[image for image in images if len(image.places) >= FEWEST] for images in candidates]
    nearest = [[_nearest(query, image) for image in own] for own in images]
    lowest = np.full((len(candidates) + 1, len(query.places)), 2, np.float32)  # the last, if there is one candidate
    for distances, own in zip(lowest, nearest, strict=False):
        distances[:] = np.min([distances, *(one.distances[:, 0] for one in own)], axis=0)
    matches = [
        [_is_match(image, one, np.delete(lowest, number, axis=0).min(axis=0)) for image, one in zip(*pair, strict=True)]
        for number, pair in enumerate(zip(images, nearest, strict=True))
    ]
    enough = [is_match for own in matches for is_match in own if is_match.sum() >= FEWEST]
    if not enough:
        return [0] * len(candidates)
    common = np.full(len(query.places), 2, np.float32)
    if elsewhere is not None:
        checked = np.any(enough, axis=0)
        common[checked] = _distances(elsewhere(query.descriptors[checked]))
    places, counts = _places(query), list[int]()
    for number, pair in enumerate(zip(images, nearest, strict=True)):
        agreeing = (
            _agreeing(query, image, one.others[:, 0], is_match & (one.distances[:, 0] < _RATIO * common))
            for image, one, is_match in zip(*pair, matches[number], strict=True)
        )
        counts.append(max((len(np.unique(places[rows])) for rows in agreeing), default=0))
    return counts


def _nearest(query: Keypoints, other: Keypoints) -> _Nearest:
    cosines = torch.from_numpy(query.descriptors) @ torch.from_numpy(other.descriptors).T
    values, others = cosines.topk(2)
    is_mutual = cosines.argmax(0)[others[:, 0]] == torch.arange(len(cosines))
    return _Nearest(others.numpy(), _distances(values.numpy()), is_mutual.numpy())


def _distances(cosines: FloatArray) -> FloatArray:
    """Returns the distances of unit vectors; 0 for what differs by no more than the rounding of their product."""
    distances = np.sqrt(np.maximum(2 - 2 * cosines, 0))
    return np.where(distances < _ROUNDING, np.float32(0), distances)


def _places(points: Keypoints) -> NDArray[np.int64]:
    """Returns a number per keypoint, the same for those at one place."""
    cells = np.round(points.places[:, :2] / _SAME).astype(np.int64)
    return np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)


def _is_match(other: Keypoints, nearest: _Nearest, rival: FloatArray) -> NDArray[np.bool_]:
    """Returns which keypoints of a query's image are much more like the nearest of an image than like any elsewhere."""
    first, second = nearest.others.T
    apart = np.linalg.norm(other.places[first, :2] - other.places[second, :2], axis=1) > _SAME
    bound = np.minimum(np.where(apart, nearest.distances[:, 1], 2), rival)
    return np.asarray(nearest.is_mutual & (nearest.distances[:, 0] < _RATIO * bound))


def _agreeing(
    query: Keypoints, other: Keypoints, nearest: NDArray[np.int64], is_match: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Returns which keypoints of the query's image agree with an image, by the best affine map of one to the other.

    Each match of keypoints has a place, a scale and an orientation in both images, and so says where all others must
    be: that with which most agree is refined by least squares.
    """
    nothing, matches = np.empty(0, np.int64), np.flatnonzero(is_match)
    if len(matches) < FEWEST:
        return nothing
    others = nearest[matches]
    here, there = query.places[matches], other.places[others]
    start, end = (points[:, 0] + 1j * points[:, 1] for points in (here, there))
    turns = there[:, 2] / here[:, 2] * np.exp(1j * (there[:, 3] - here[:, 3]))
    expected = end[:, None] + turns[:, None] * (start[None] - start[:, None])
    is_near = np.abs(expected - end) < _NEARBY
    agreeing = is_near[is_near.sum(1).argmax()]
    inputs = np.column_stack([here[:, :2], np.ones(len(here), np.float32)])
    for _ in range(_ROUNDS):
        if agreeing.sum() < FEWEST:
            return nothing
        mapping = np.linalg.lstsq(inputs[agreeing], there[agreeing, :2])[0]
        agreeing = np.linalg.norm(inputs @ mapping - there[:, :2], axis=1) < _NEAR
    long, short = np.linalg.svd(mapping[:2], compute_uv=False)
    is_possible = agreeing.sum() >= FEWEST and short > _SMALLEST and long < min(_LARGEST, _STRETCH * short)
    length, width = np.linalg.svd(here[agreeing, :2] - here[agreeing, :2].mean(0), compute_uv=False)
    return matches[agreeing] if is_possible and width > _WIDTH * length else nothing
