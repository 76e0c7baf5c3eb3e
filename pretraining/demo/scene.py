"""Locates things on a flag in words: "in the white band", "in the upper-left corner"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pretraining.demo.flags import Layer
from pretraining.demo.folding import Band, box_of, center, centers

SIZES = {  # option, default, small below, big above, and the words for it
    "star": ("r", 0.15, 0.07, 0.22, "small", "big"),
    "stars": ("r", 0.05, 0.04, 0.12, "small", "big"),
    "disc": ("r", 0.3, 0.16, 0.27, "small", "big"),
    "ring": ("r", 0.3, 0.15, 0.3, "small", "big"),
    "crescent": ("r", 0.25, 0.12, 0.24, "small", "big"),
    "sun": ("r", 0.25, 0.12, 0.24, "small", "big"),
    "plus": ("r", 0.3, 0.15, 0.28, "small", "big"),
    "emblem": ("r", 0.2, 0.1, 0.3, "small", "big"),
    "cross": ("width", 0.2, 0.1, 0.3, "narrow", "wide"),
    "saltire": ("width", 0.15, 0.09, 0.25, "narrow", "wide"),
    "bend": ("width", 0.2, 0.13, 0.28, "narrow", "wide"),
    "border": ("width", 0.06, 0.07, 0.12, "narrow", "wide"),
    "serrated": ("x", 0.3, 0.2, 0.35, "narrow", "wide"),
}


@dataclass(frozen=True, slots=True)
class Region:
    """A place in words: the wording `place`, and the `which color holder` it refers to.

    `shape` is the noun if the operation alone does not determine it, `layout` is how several stars are arranged, and
    `shared` means that two things in this region belong together.
    """

    place: str
    holder: str = ""
    color: str = ""
    which: str = ""
    shape: str = field(default="", compare=False)
    layout: str = field(default="group", compare=False)
    shared: bool = field(default=False, compare=False)
    at: tuple[float, float] = field(default=(0.5, 0.5), compare=False)

    def beside(self, other: Region) -> bool:
        """Returns whether two things in these regions form one group, such as a crescent and its star."""
        if not (self.shared and other.shared) or (self.holder, self.color) != (other.holder, other.color):
            return False
        return self == other or math.dist(self.at, other.at) < 0.27


def size_of(layer: Layer, ratio: float) -> str:
    """Returns `big`, `small`, `wide`, `narrow` or "" for a layer of a flag with proportion `ratio`."""
    if layer.operation == "rect":
        x0, y0, x1, y1 = box_of(layer)
        if x1 - x0 > 0.95 or y1 - y0 > 0.95:
            thickness = min(y1 - y0, (x1 - x0) * ratio)
            return _by_value(thickness, (0.13, 0.4), ("narrow", "", "wide"))
        return _by_value((x1 - x0) * (y1 - y0), (0.08, 0.3), ("small", "", "big"))
    if layer.operation == "diamond":
        x0, _, x1, _ = box_of(layer)
        return _by_value(x1 - x0, (0.25, 0.5), ("small", "", "big"))
    if layer.operation not in SIZES:
        return ""
    key, default, low, high, below, above = SIZES[layer.operation]
    return _by_value(layer.number(key, default), (low, high), (below, "", above))


def _by_value(value: float, limits: tuple[float, float], names: tuple[str, str, str]) -> str:
    """Returns the first name below both limits, the last above both, else the one in between."""
    if value < limits[0]:
        return names[0]
    return names[2] if value > limits[1] else names[1]


def locate(layers: Sequence[Layer], index: int, ratio: float, bands: tuple[bool, list[Band]]) -> Region:
    """Locates layer `index`; `bands` is the result of `bands_of(layers)`."""
    layer = layers[index]
    operation = layer.operation
    if operation == "cross":
        return Region("cross-left" if layer.numbers("at", (0.5, 0.5))[0] < 0.45 else "cross-center")
    if operation == "triangle":
        return Region("based-long" if layer.number("depth", 0.4) > 0.9 else "based")
    if operation == "bend":
        return Region(layer.options.get("dir", "up"))
    if operation in ("border", "saltire", "pall", "serrated"):
        return Region({"border": "around", "saltire": "corners", "serrated": "hoist"}.get(operation, operation))
    if operation in ("split", "wedge", "bands", "field"):
        return Region("center", shape="rect")
    if operation == "rect":
        return _rectangle(layer)
    shape = ""
    if operation == "star" and "outline" in layer.options:
        shape = "outline"
    if operation == "poly":
        shape = {3: "poly3", 4: "poly4"}.get(len(layer.places()), "poly")
    points = centers(layer)
    x, y = sum(p[0] for p in points) / len(points), sum(p[1] for p in points) / len(points)
    layout = _layout(points, ratio)
    if layer.operation in ("star", "disc", "sun", "crescent", "plus", "emblem", "stars", "ring", "diamond"):
        reach = layer.number("r", 0.2)
        if operation == "stars":
            reach = layer.number("spread", 0.25) * (0.5 if layer.options.get("layout") == "line" else 1.0)
        elif len(points) > 1:
            reach = max(abs(p[1] - y) for p in points) + 0.05
        elif operation == "diamond":
            reach = 0.5
        held = _holder(layers, index, (x, y), reach, ratio, bands)
        if held:
            return Region(held.place, held.holder, held.color, held.which, shape, layout, True, (x, y))
    place = _grid(x, y)
    if operation != "star" and len(points) == 2:
        wide, high = abs(points[0][0] - points[1][0]), abs(points[0][1] - points[1][1])
        if max(wide, high) > 0.3 > min(wide, high):
            return Region("sides" if wide > high else "poles", shape=shape)
    if operation == "union" and box_of(layer)[2] > 0.95:
        place = "whole"
    if place == "center" and bands[1] and len(bands[1]) % 2 == 0:
        place = "center-bands"
    return Region(place, shape=shape, layout=layout, shared=True, at=(x, y))


def _grid(x: float, y: float) -> str:
    row = _by_value(y, (0.36, 0.64), ("top", "", "bottom"))
    column = _by_value(x, (0.36, 0.64), ("left", "", "right"))
    if row and column:
        return f"{row}-{column}"
    if row or column:
        return row or column
    return _by_value(x, (0.465, 0.535), ("near-left", "center", "near-right"))


def _rectangle(layer: Layer) -> Region:
    x0, y0, x1, y1 = box_of(layer)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    several = "count" in layer.options
    if x1 - x0 > 0.98:
        place = "middle-h" if abs(y - 0.5) < 0.06 else "top" if y < 0.5 else "bottom"
        if several:
            place = "edges-h" if min(p[1] for p in centers(layer)) < 0.25 else "between-h"
        return Region(place, shape="stripe-h")
    if y1 - y0 > 0.98:
        if x0 < 0.02:
            place = "hoist"
        elif x1 > 0.98:
            place = "fly"
        else:
            place = "middle-v" if abs(x - 0.5) < 0.06 else _grid(x, 0.5)
        if several:
            place = "edges-v" if min(p[0] for p in centers(layer)) < 0.25 else "between-v"
        return Region(place, shape="stripe-v")
    if x0 < 0.02 and y0 < 0.02:
        return Region("top-left", shape="canton")
    return Region(_grid(x, y), shape="rect", shared=True)


def _layout(points: Sequence[tuple[float, float]], ratio: float) -> str:
    if len(points) == 1:
        return "group"
    wide = (max(p[0] for p in points) - min(p[0] for p in points)) * ratio
    high = max(p[1] for p in points) - min(p[1] for p in points)
    if high < 0.06:
        return "line"
    if wide < 0.06:
        return "column"
    if len(points) == 3:
        return "triangular"
    fly = sum(p[0] for p in points) > 0.6 * len(points)
    return "southern" if len(points) in (4, 5) and high > 0.4 and fly else "group"


def _holder(
    layers: Sequence[Layer],
    index: int,
    point: tuple[float, float],
    reach: float,
    ratio: float,
    bands: tuple[bool, list[Band]],
) -> Region | None:
    """Returns the region of the underlying shape that contains a thing of radius `reach` at `point`, if any."""
    x, y = point
    for layer in reversed(layers[:index]):
        color, operation = layer.words[0] if layer.words else "", layer.operation
        if operation in ("disc", "sun") and len(layer.places()) == 1:
            cx, cy = center(layer)
            r = layer.number("r", 0.3 if operation == "disc" else 0.25)
            if math.hypot((x - cx) * ratio, y - cy) + reach * 0.5 < r:
                return Region("in-center", "disk" if operation == "disc" else "sun", color)
        elif operation in ("rect", "union", "diamond") and "count" not in layer.options:
            x0, y0, x1, y1 = box_of(layer)
            if x0 < x < x1 and y0 < y < y1 and reach < 0.62 * (y1 - y0) and (x1 - x0 < 0.9 or y1 - y0 < 0.9):
                stripe = x1 - x0 > 0.95 or y1 - y0 > 0.95
                name = {"union": "UK flag", "diamond": "diamond"}.get(operation, "band" if stripe else "rectangle")
                return Region(_inside((x - x0) / (x1 - x0), (y - y0) / (y1 - y0)), name, color)
        elif operation == "triangle":
            if x < layer.number("depth", 0.4) * (1 - 2 * abs(y - 0.5)) and reach < 0.35:
                return Region("in-center", "triangle", color)
        elif operation == "serrated" and x < layer.number("x", 0.3):
            return Region(_inside(0.5, y), "band", color)
        elif operation == "cross":
            cx, cy = layer.numbers("at", (0.5, 0.5))
            if abs(x - cx) < 0.04 and abs(y - cy) < 0.04:
                return Region("in-center", "cross", color)
        elif operation == "split" and reach < 0.35:
            height = y - (1 - x if layer.options.get("dir", "up") == "up" else x)
            if abs(height) > 0.2:
                return Region("in-center", "upper triangle" if height < 0 else "lower triangle")
        elif operation == "bands":
            return _in_band(bands, point, reach, ratio)
    return None


def _inside(x: float, y: float) -> str:
    if abs(x - 0.5) < 0.17 and abs(y - 0.5) < 0.17:
        return "in-center"
    if abs(x - 0.5) > abs(y - 0.5):
        return "in-left" if x < 0.5 else "in-right"
    return "in-top" if y < 0.5 else "in-bottom"


def _in_band(bands: tuple[bool, list[Band]], point: tuple[float, float], reach: float, ratio: float) -> Region | None:
    horizontal, spans = bands
    across, along = (point[1], point[0]) if horizontal else (point[0], point[1])
    for i, band in enumerate(spans):
        size = band.end - band.start
        middle = abs(across - (band.start + band.end) / 2) / size
        if middle > 0.3 or (reach > (1.1 if size > 0.3 else 0.8) * size * (1.0 if horizontal else ratio)):
            continue
        twins = [j for j, other in enumerate(spans) if other.color == band.color]
        which = ""
        if len(twins) > 1:
            first, last = ("top ", "bottom ") if horizontal else ("left-side ", "right-side ")
            which = first if i == twins[0] else last if i == twins[-1] else "middle "
        if abs(along - 0.5) < 0.06:
            place = "in-center"
        else:
            low, high = ("in-left", "in-right") if horizontal else ("in-top", "in-bottom")
            place = low if along < 0.5 else high
        return Region(place, "band", band.color, which)
    return None
