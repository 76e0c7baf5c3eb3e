"""Verifies candidates: do keypoints of the query's image lie on one of their images as one thing would?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from retriever.models.keypoints import Keypoints

FEWEST = 4
"""Fewer matches agree by chance."""
_RATIO = 0.85
"""A match must be this much nearer than the second nearest, or many keypoints look like it."""
_SAME = 0.005
"""Keypoints that are no farther apart than this, of the longer side, are one place with two orientations."""
_NEAR, _NEARBY = 0.025, 0.075
"""How far from its place a match may be, of the longer side, in the end and at first."""
_STRETCH, _SMALLEST, _LARGEST = 4.0, 0.15, 6.0
"""How much longer a thing may become one way than across, and its least and largest size, of what it was."""
_ROUNDS = 4


def agreement(query: Keypoints, candidates: Sequence[Sequence[Keypoints]]) -> list[float]:
    """Returns how many places of a query's image agree with the best image of each candidate.

    A place that agrees with several candidates says little, such as one of a common background or of the maker's mark:
    each gets an equal share.

    Args:
        query: The keypoints of the query's image.
        candidates: Those of each candidate's images.
    """
    places = _places(query)
    agreeing = [[np.unique(places[_agreeing(query, image)]) for image in images] for images in candidates]
    best = [max(own, key=len, default=places[:0]) for own in agreeing]
    shares = np.zeros(len(places) + 1)
    for own in best:
        shares[own] += 1
    return [float((1 / shares[own]).sum()) for own in best]


def _places(points: Keypoints) -> NDArray[np.int64]:
    """Returns a number per keypoint, the same for those at one place."""
    cells = np.round(points.places[:, :2] / _SAME).astype(np.int64)
    return np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)


def _agreeing(query: Keypoints, other: Keypoints) -> NDArray[np.int64]:
    """Returns which keypoints of the query's image agree with an image, by the best affine map of one to the other.

    Each match of keypoints has a place, a scale and an orientation in both images, and so says where all others must
    be: that with which most agree is refined by least squares.
    """
    nothing = np.empty(0, np.int64)
    if min(len(query.places), len(other.places)) < FEWEST:
        return nothing
    matches, others = _matched(query, other)
    if len(matches) < FEWEST:
        return nothing
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
    is_possible = short > _SMALLEST and long < min(_LARGEST, _STRETCH * short)
    return matches[agreeing] if is_possible and agreeing.sum() >= FEWEST else nothing


def _matched(query: Keypoints, other: Keypoints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs of keypoints that are nearest to each other and distinct."""
    cosines = torch.from_numpy(query.descriptors) @ torch.from_numpy(other.descriptors).T
    values, columns = cosines.topk(2)
    back, rows = cosines.argmax(0).numpy(), np.arange(len(cosines))
    first, second = columns.numpy().T
    distances = np.sqrt(np.maximum(0, 2 - 2 * values.numpy())).T
    apart = np.linalg.norm(other.places[first, :2] - other.places[second, :2], axis=1)
    is_match = (distances[0] < _RATIO * distances[1]) | (apart < _SAME)
    is_match &= back[first] == rows
    return rows[is_match], first[is_match]
