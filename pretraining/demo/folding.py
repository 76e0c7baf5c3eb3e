"""Folds painted layers into what a person would name: outlines, repeated shapes and quarters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pretraining.demo.flags import Layer

FOLDED = {  # the option that sets a shape's size
    "cross": "width",
    "saltire": "width",
    "bend": "width",
    "pall": "width",
    "triangle": "depth",
    "disc": "r",
    "star": "r",
}
DEFAULTS = {"width": 0.2, "depth": 0.4, "r": 0.15}
REPEATED = ("rect", "disc", "diamond", "ring", "poly", "plus")

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Band:
    """A band: its color word, and its start and end as fractions."""

    color: str
    start: float
    end: float


def box_of(layer: Layer) -> Box:
    """Returns the box x0,y0,x1,y1 of a rectangle, union flag, diamond or waves."""
    defaults = {"union": (0.0, 0.0, 0.5, 0.5), "diamond": (0.1, 0.1, 0.9, 0.9)}
    x0, y0, x1, y1 = layer.numbers("box", defaults.get(layer.operation, (0.0, 0.0, 1.0, 1.0)))
    return x0, y0, x1, y1


def bands_of(layers: Sequence[Layer]) -> tuple[bool, list[Band]]:
    """Returns whether the bands at the bottom are horizontal, and the bands, if any."""
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


def centers(layer: Layer) -> list[tuple[float, float]]:
    """Returns the center of each shape that `layer` draws."""
    if "centers" in layer.options:
        return Layer("star", (), {"at": layer.options["centers"]}).places()
    return layer.places() if layer.operation == "star" else [center(layer)]


def quarters(layers: Sequence[Layer]) -> tuple[list[str], int] | None:
    """Returns the four colors, row by row, and the number of rectangles they take; None for other designs."""
    if layers[0].operation != "field":
        return None
    colors, used, filled = [layers[0].words[0]] * 4, 0, 0
    for layer in layers[1:]:
        if layer.operation != "rect":
            break
        x0, y0, x1, y1 = box_of(layer)
        if any(abs(v * 2 - round(v * 2)) > 0.02 for v in (x0, y0, x1, y1)) or x1 - x0 > 0.6 or y1 - y0 > 0.6:
            break
        for x, y in centers(layer):
            colors[round(y * 2 - 0.5) * 2 + round(x * 2 - 0.5)] = layer.words[0]
            filled += 1
        used += 1
    return (colors, used) if filled > 1 else None


def fold(layers: Sequence[Layer]) -> list[Layer]:
    """Folds layers: a shape on a slightly larger one becomes one with an edge; repeated shapes get a count."""
    told: list[Layer] = []
    for layer in layers:
        seen = [word.split("*")[0] for below in told[:-1] for word in below.words]
        last = told[-1] if told else None
        if last is not None and (edged := _edged(last, layer, seen)):
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


def _edged(under: Layer, over: Layer, seen: Collection[str]) -> Layer | None:
    """Returns `over` with the color of `under` as its edge, if the two look like an edged shape.

    A star is an outline if its color is one of the colors `seen` below it.
    """
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
    least = {"triangle": 0.8, "disc": 0.72, "star": 0.5}.get(over.operation, 0.0)
    if over.operation == "star" and over.words[0] in seen:
        options = {**under.options, "outline": "yes"}
        return Layer(over.operation, under.words, options) if 0.4 * big < small < big else None
    return Layer(over.operation, over.words, options) if least * big < small < big else None


def _alike(a: Layer, b: Layer) -> bool:
    if a.operation != b.operation or a.operation not in REPEATED or a.words != b.words:
        return False
    if a.operation == "rect":
        p, q = box_of(a), box_of(b)
        return abs((p[2] - p[0]) - (q[2] - q[0])) < 0.02 and abs((p[3] - p[1]) - (q[3] - q[1])) < 0.02
    return a.operation != "poly" or len(a.places()) == len(b.places())


def center(layer: Layer) -> tuple[float, float]:
    """Returns the center of a layer as x, y."""
    if layer.operation in ("rect", "union", "diamond", "waves"):
        x0, y0, x1, y1 = box_of(layer)
        return (x0 + x1) / 2, (y0 + y1) / 2
    places = layer.places()
    return sum(p[0] for p in places) / len(places), sum(p[1] for p in places) / len(places)
