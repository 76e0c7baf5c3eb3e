"""Where things are on a flag, the way people say it: "in the white band", "in the upper-left corner"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from demo.flags import Layer

FOLDED = {"cross": "width", "saltire": "width", "bend": "width", "pall": "width", "triangle": "depth", "disc": "r"}
DEFAULTS = {"width": 0.2, "depth": 0.4, "r": 0.3}
REPEATED = ("rect", "disc", "diamond", "ring", "poly", "plus")
SIZES = {  # a size below the first number is small, above the second big
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
class Band:
    """One band: its color word, and where it starts and ends, as fractions."""

    color: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Region:
    """A place in words: the wording `place`, and the `which color holder` that it refers to.

    `shape` names the noun where the operation alone does not, `layout` how several stars are arranged, and `shared`
    says that two things in this region stand together.
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
        return self == other or math.dist(self.at, other.at) < 0.2


Box = tuple[float, float, float, float]


def box_of(layer: Layer) -> Box:
    """Returns the box x0,y0,x1,y1 of a rectangle, union flag, diamond or waves."""
    defaults = {"union": (0.0, 0.0, 0.5, 0.5), "diamond": (0.1, 0.1, 0.9, 0.9)}
    x0, y0, x1, y1 = layer.numbers("box", defaults.get(layer.operation, (0.0, 0.0, 1.0, 1.0)))
    return x0, y0, x1, y1


def bands_of(layers: Sequence[Layer]) -> tuple[bool, list[Band]]:
    """Returns whether the bands at the bottom run horizontally, and the bands (none: an empty list)."""
    if not layers or layers[0].operation != "bands":
        return True, []
    way, *words = layers[0].words
    weights = [float(word.split("*")[1]) if "*" in word else 1.0 for word in words]
    bands, start = [], 0.0
    for word, weight in zip(words, weights, strict=True):
        end = start + weight / sum(weights)
        bands.append(Band(word.split("*")[0], start, end))
        start = end
    return way == "h", bands


def quarters(layers: Sequence[Layer]) -> tuple[list[str], int] | None:
    """Returns the four colors, row by row, and how many rectangles make them; None for another design."""
    if layers[0].operation != "field":
        return None
    colors, used = [layers[0].words[0]] * 4, 0
    for layer in layers[1:]:
        if layer.operation != "rect" or layer.options.get("count"):
            break
        x0, y0, x1, y1 = box_of(layer)
        if any(abs(v * 2 - round(v * 2)) > 0.02 for v in (x0, y0, x1, y1)) or x1 - x0 > 0.6 or y1 - y0 > 0.6:
            break
        colors[round(y0 * 2) * 2 + round(x0 * 2)] = layer.words[0]
        used += 1
    return (colors, used) if used > 1 else None


def size_of(layer: Layer, ratio: float) -> str:
    """Returns `big`, `small`, `wide`, `narrow` or "" for a layer of a flag of proportion `ratio`."""
    if layer.operation == "rect":
        x0, y0, x1, y1 = box_of(layer)
        if x1 - x0 > 0.95 or y1 - y0 > 0.95:
            thickness = min(y1 - y0, (x1 - x0) * ratio)
            return "narrow" if thickness < 0.13 else "wide" if thickness > 0.4 else ""
        return "small" if (x1 - x0) * (y1 - y0) < 0.08 else "big" if (x1 - x0) * (y1 - y0) > 0.3 else ""
    if layer.operation == "diamond":
        x0, _, x1, _ = box_of(layer)
        return "big" if x1 - x0 > 0.5 else "small" if x1 - x0 < 0.25 else ""
    if layer.operation not in SIZES:
        return ""
    key, default, low, high, below, above = SIZES[layer.operation]
    value = layer.number(key, default)
    return below if value < low else above if value > high else ""


def fold(layers: Sequence[Layer]) -> list[Layer]:
    """Returns the layers as told: a shape on a slightly larger one is edged, repeated ones are counted."""
    told: list[Layer] = []
    for layer in layers:
        last = told[-1] if told else None
        if last is not None and (edged := _edged(last, layer)):
            told[-1] = edged
        elif last is not None and _alike(last, layer):
            centers = last.options.get("centers", _text(center(last)))
            count = str(int(last.options.get("count", "1")) + 1)
            options = {**last.options, "count": count, "centers": f"{centers}/{_text(center(layer))}"}
            told[-1] = Layer(last.operation, last.words, options)
        else:
            told.append(layer)
    return told


def _text(point: tuple[float, float]) -> str:
    return f"{point[0]:g},{point[1]:g}"


def _edged(under: Layer, over: Layer) -> Layer | None:
    """`over` with the color of `under` as its edge, where that is what the two look like."""
    if under.operation != over.operation or "edge" in over.options or {"edge", "count"} & under.options.keys():
        return None
    options = {**over.options, "edge": under.words[0] if under.words else ""}
    if over.operation == "rect":
        a, b = box_of(under), box_of(over)
        stripe = (a[2] - a[0] > 0.98 and b[2] - b[0] > 0.98) or (a[3] - a[1] > 0.98 and b[3] - b[1] > 0.98)
        inside = all(a[i] <= b[i] + 1e-6 for i in (0, 1)) and all(a[i] >= b[i] - 1e-6 for i in (2, 3))
        return Layer(over.operation, over.words, options) if stripe and inside else None
    key = FOLDED.get(over.operation)
    if key is None or any(under.options.get(name) != over.options.get(name) for name in ("at", "dir")):
        return None
    big, small = under.number(key, DEFAULTS[key]), over.number(key, DEFAULTS[key])
    least = {"triangle": 0.8, "disc": 0.72}.get(over.operation, 0.0)
    return Layer(over.operation, over.words, options) if least * big < small < big else None


def _alike(a: Layer, b: Layer) -> bool:
    if a.operation != b.operation or a.operation not in REPEATED or a.words != b.words:
        return False
    if a.operation == "rect":
        p, q = box_of(a), box_of(b)
        return abs((p[2] - p[0]) - (q[2] - q[0])) < 0.02 and abs((p[3] - p[1]) - (q[3] - q[1])) < 0.02
    return a.operation != "poly" or len(a.places()) == len(b.places())


def center(layer: Layer) -> tuple[float, float]:
    """Returns the middle of a layer as x, y."""
    if layer.operation in ("rect", "union", "diamond", "waves"):
        x0, y0, x1, y1 = box_of(layer)
        return (x0 + x1) / 2, (y0 + y1) / 2
    places = layer.places()
    return sum(p[0] for p in places) / len(places), sum(p[1] for p in places) / len(places)


def _centers(layer: Layer) -> list[tuple[float, float]]:
    if "centers" in layer.options:
        return Layer("star", (), {"at": layer.options["centers"]}).places()
    return layer.places() if layer.operation == "star" else [center(layer)]


def locate(layers: Sequence[Layer], index: int, ratio: float, bands: tuple[bool, list[Band]]) -> Region:
    """Returns where layer `index` is; `bands` is what `bands_of(layers)` returns."""
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
        return Region("center", shape={"split": "rect", "wedge": "rect", "bands": "rect", "field": "rect"}[operation])
    if operation == "rect":
        return _rectangle(layer)
    shape = ""
    if operation == "poly":
        shape = {3: "poly3", 4: "poly4"}.get(len(layer.places()), "poly")
    points = _centers(layer)
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
    if place == "center" and bands[1] and len(bands[1]) % 2 == 0:
        place = "center-bands"
    return Region(place, shape=shape, layout=layout, shared=True, at=(x, y))


def _grid(x: float, y: float) -> str:
    row = "top" if y < 0.36 else "bottom" if y > 0.64 else ""
    column = "left" if x < 0.36 else "right" if x > 0.64 else ""
    if row and column:
        return f"{row}-{column}"
    if row or column:
        return row or column
    return "near-left" if x < 0.465 else "near-right" if x > 0.535 else "center"


def _rectangle(layer: Layer) -> Region:
    x0, y0, x1, y1 = box_of(layer)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    several = "count" in layer.options
    if x1 - x0 > 0.98:
        place = "middle-h" if abs(y - 0.5) < 0.06 else "top" if y < 0.5 else "bottom"
        if several:
            place = "edges-h" if min(p[1] for p in _centers(layer)) < 0.25 else "between-h"
        return Region(place, shape="stripe-h")
    if y1 - y0 > 0.98:
        place = "hoist" if x0 < 0.02 else "fly" if x1 > 0.98 else "middle-v" if abs(x - 0.5) < 0.06 else _grid(x, 0.5)
        if several:
            place = "edges-v" if min(p[0] for p in _centers(layer)) < 0.25 else "between-v"
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
    """The shape below that holds a thing of radius `reach` at `point`."""
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
