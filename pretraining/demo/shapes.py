"""Outlines as lists of points, for the painters of flags and emblems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import acos, cos, hypot, pi, sin

Point = tuple[float, float]


def outline(text: str) -> list[Point]:
    """Parses points written as `x,y x,y …`."""
    pairs = [pair.split(",") for pair in text.split()]
    return [(float(x), float(y)) for x, y in pairs]


def mirrored(half: Sequence[Point]) -> list[Point]:
    """Returns the closed outline whose right half, from top to bottom, is `half`."""
    return [*half, *((-x, y) for x, y in reversed(half))]


def arc(x: float, y: float, rx: float, ry: float, start: float, end: float, steps: int = 12) -> list[Point]:
    """Returns `steps + 1` points of an ellipse around `(x, y)`; degrees run clockwise from the top."""
    angles = [(start + (end - start) * i / steps) * pi / 180 for i in range(steps + 1)]
    return [(x + rx * sin(a), y - ry * cos(a)) for a in angles]


def rotated(points: Sequence[Point], degrees: float) -> list[Point]:
    """Returns `points` rotated clockwise around the origin."""
    c, s = cos(degrees * pi / 180), sin(degrees * pi / 180)
    return [(x * c - y * s, x * s + y * c) for x, y in points]


def placed(points: Sequence[Point], x: float, y: float, scale: float) -> list[Point]:
    """Returns `points` scaled, then moved by `(x, y)`."""
    return [(x + px * scale, y + py * scale) for px, py in points]


@lru_cache(maxsize=256)
def star(points: int, inner: float, angle: float) -> tuple[Point, ...]:
    """Returns the outline of a star of radius 1 with notches at radius `inner`."""
    corners = []
    for i in range(2 * points):
        a, r = angle * pi / 180 + i * pi / points, inner if i % 2 else 1.0
        corners.append((r * sin(a), -r * cos(a)))
    return tuple(corners)


def crescent(inner: float, shift: float) -> list[Point]:
    """Returns a crescent of radius 1 that opens upward: a disc minus a disc of radius `inner` moved up by `shift`.

    Raises:
        ValueError: The circles do not cross, so there is no crescent.
    """
    reach = (1 - inner * inner + shift * shift) / (2 * shift) if shift > 0 else 2.0
    if not abs(reach) < 1:
        raise ValueError(f"inner={inner:g} shift={shift:g} gives no crescent: try shift = 1.05 - inner")
    outer = acos(reach) * 180 / pi
    bite = acos(max(-1.0, min(1.0, (reach - shift) / inner))) * 180 / pi
    return [*arc(0, 0, 1, 1, outer, 360 - outer, 48), *arc(0, -shift, inner, inner, 360 - bite, bite, 48)]


def stripe(start: Point, end: Point, width: float) -> list[Point]:
    """Returns the rectangle of `width` around the line from `start` to `end`."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = hypot(dx, dy) or 1.0
    ox, oy = -dy / length * width / 2, dx / length * width / 2
    return [
        (start[0] + ox, start[1] + oy),
        (end[0] + ox, end[1] + oy),
        (end[0] - ox, end[1] - oy),
        (start[0] - ox, start[1] - oy),
    ]
