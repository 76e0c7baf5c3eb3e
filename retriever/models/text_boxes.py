"""Where text stands in an image: rotated rectangles around the regions of a detector's map of probabilities.

Differentiable binarization (Liao et al., 2020) marks a shrunken core of each line of text, so that lines do not touch.
A line's rectangle is the smallest one around its core, grown back.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, hypot, radians, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.types import FloatArray

THRESHOLD = 0.3
"""The probability from which on a pixel belongs to a core."""
CERTAINTY = 0.5
"""The least mean probability of a core's pixels."""
GROWTH = 1.6
"""How far a core's sides move outward, in areas per perimeter."""
SMALLEST = 3.0
"""The least height of a core in pixels."""
ANGLES = np.array(sorted(range(-44, 46), key=abs))
"""Angles in degrees at which a rectangle may stand; of two that fit equally well, the first is taken."""

Ints = NDArray[np.int64]
Rectangle = tuple[float, float, float, float, float]
"""The center, the sides, and the angle of the first side."""


@dataclass(frozen=True, slots=True)
class TextBox:
    """A rectangle around a line of text: its center, its sides, and the angle of its width, in degrees clockwise.

    All lengths are in pixels. The width is the side that is nearer to the horizontal, not the longer one.
    """

    x: float
    y: float
    width: float
    height: float
    angle: float

    def scaled(self, x: float, y: float) -> TextBox:
        """Returns the box in an image whose sides are so many times as long."""
        cosine, sine = cos(radians(self.angle)), sin(radians(self.angle))
        across, down = hypot(cosine * x, sine * y), hypot(sine * x, cosine * y)
        return TextBox(self.x * x, self.y * y, self.width * across, self.height * down, self.angle)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The upright rectangle around the box: left, top, right, bottom."""
        cosine, sine = abs(cos(radians(self.angle))), abs(sin(radians(self.angle)))
        across = (self.width * cosine + self.height * sine) / 2
        down = (self.width * sine + self.height * cosine) / 2
        return self.x - across, self.y - down, self.x + across, self.y + down


def text_boxes(probabilities: FloatArray) -> list[TextBox]:
    """Returns a box per line of text on a map of probabilities [H, W], in the map's pixels."""
    starts, ends, labels = regions(probabilities > THRESHOLD)
    if not len(labels):
        return []
    sums = np.concatenate([[0.0], np.cumsum(probabilities, dtype=np.float64)])
    certainty = np.bincount(labels, sums[ends] - sums[starts]) / np.bincount(labels, ends - starts)
    # The first and the last pixel of each run have a region's corners among them.
    y, x = np.divmod(np.concatenate([starts, ends - 1]), probabilities.shape[1])
    rectangles = _smallest_rectangles(x, y, np.tile(labels, 2))
    return [
        _grown(*rectangle)
        for rectangle, sure in zip(rectangles, certainty.tolist(), strict=True)
        if sure >= CERTAINTY and min(rectangle[2:4]) >= SMALLEST
    ]


def _smallest_rectangles(x: NDArray[Any], y: NDArray[Any], labels: Ints) -> list[Rectangle]:
    """Returns the smallest rectangle around the pixels of each label."""
    order = np.argsort(labels, kind="stable")
    x, y = x[order, None] + 0.5, y[order, None] + 0.5
    first = np.searchsorted(labels[order], np.arange(labels.max() + 1))
    cosines, sines = np.cos(np.radians(ANGLES)), np.sin(np.radians(ANGLES))
    along, aside = x * cosines + y * sines, y * cosines - x * sines
    left, right = np.minimum.reduceat(along, first), np.maximum.reduceat(along, first)
    top, bottom = np.minimum.reduceat(aside, first), np.maximum.reduceat(aside, first)
    widths, heights = right - left + 1, bottom - top + 1  # from the middle of a pixel to another's, and half of each
    best = (widths * heights).round(6).argmin(1)[:, None]
    u, v, width, height = (
        np.take_along_axis(values, best, 1) for values in ((left + right) / 2, (top + bottom) / 2, widths, heights)
    )
    cosine, sine = cosines[best], sines[best]
    table = np.hstack([u * cosine - v * sine, u * sine + v * cosine, width, height, ANGLES[best]])
    return [(x, y, width, height, angle) for x, y, width, height, angle in table.tolist()]


def _grown(x: float, y: float, width: float, height: float, angle: float) -> TextBox:
    both = GROWTH * width * height / (width + height)  # ends of a side together
    return TextBox(x, y, width + both, height + both, angle)


def regions(mask: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Returns the runs of pixels in the rows of a mask: positions of starts and ends, and the region of each run.

    Runs in neighboring rows that touch, at least at a corner, are in one region; regions are numbered from 0.
    """
    stride = mask.shape[1] + 1  # a gap between rows
    edges = np.flatnonzero(np.diff(np.pad(mask, ((0, 0), (0, 1))).ravel().astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    # Of the runs in the next row, those that touch a run are neighbors in the list, too.
    low = np.searchsorted(ends, starts + stride)
    high = np.maximum(low, np.searchsorted(starts, ends + stride, side="right"))
    upper = np.repeat(np.arange(len(starts)), high - low)
    lower = np.arange(len(upper)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[upper]
    labels = np.arange(len(starts))
    while len(upper) and (labels[upper] != labels[lower]).any():
        least = np.minimum(labels[upper], labels[lower])
        before = labels.copy()
        np.minimum.at(labels, before[upper], least)
        np.minimum.at(labels, before[lower], least)
        labels = labels[labels]
    rows = starts // stride
    return starts - rows, ends - rows, np.unique(labels, return_inverse=True)[1]


def reading_order(boxes: list[tuple[float, float, float, float]]) -> list[int]:
    """Returns the order in which upright boxes are read: rows from top to bottom, each from left to right.

    A box is in a row if its center is within the height of the row's first box.
    """
    rows: list[list[int]] = []
    for index in sorted(range(len(boxes)), key=lambda index: boxes[index][1] + boxes[index][3]):
        _, top, _, bottom = boxes[index]
        if rows and boxes[rows[-1][0]][1] <= (top + bottom) / 2 < boxes[rows[-1][0]][3]:
            rows[-1].append(index)
        else:
            rows.append([index])
    return [index for row in rows for index in sorted(row, key=lambda index: boxes[index][0])]
