"""Painters of the operations of the flag language (pretraining/demo/README.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import cos, pi

from pretraining.demo.colors import RGB, color
from pretraining.demo.flags import Layer
from pretraining.demo.pen import Canvas, Pen
from pretraining.demo.shapes import Point, arc, crescent, placed, rotated, star, stripe
from pretraining.demo.things import EMBLEMS
from pretraining.demo.union import union_flag

BLUNT = {5: 0.382, 6: 0.577}  # inner radius of a regular star; stars with other numbers of points are sharper


def _ink(layer: Layer, index: int = 0) -> RGB:
    if index >= len(layer.words):
        raise ValueError("needs a color" if index == 0 else f"needs {index + 1} words, has {len(layer.words)}")
    return color(layer.words[index])


def _edges(layer: Layer, width: float) -> list[tuple[float, RGB]]:
    """Returns the strokes (width, color) of a shape with an optional edge, widest first."""
    inner = (width, _ink(layer))
    if "edge" not in layer.options:
        return [inner]
    return [(width + 2 * layer.number("edgewidth", 0.04), color(layer.options["edge"])), inner]


def _weighted(words: Sequence[str]) -> list[tuple[float, float, RGB]]:
    """Returns the part (start, end, color) of the unit interval that each word `C` or `C*weight` takes."""
    if not words:
        raise ValueError("needs at least one color")
    parts = [word.partition("*") for word in words]
    weights = [float(weight or 1) for _, _, weight in parts]
    total, start, shares = sum(weights), 0.0, []
    for (name, _, _), weight in zip(parts, weights, strict=True):
        shares.append((start / total, (start + weight) / total, color(name)))
        start += weight
    return shares


def _box(layer: Layer, default: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    box = layer.numbers("box", default)
    if len(box) != 4:
        raise ValueError(f"box={layer.options['box']} must be x0,y0,x1,y1")
    return box[0], box[1], box[2], box[3]


def _field(canvas: Canvas, layer: Layer) -> None:
    canvas.rectangle(0, 0, canvas.width, canvas.height, _ink(layer))


def _bands(canvas: Canvas, layer: Layer) -> None:
    direction, *words = layer.words or ("",)
    if direction not in ("h", "v"):
        raise ValueError(f"the first word must be h or v, not {direction!r}")
    w, h = canvas.width, canvas.height
    for start, end, ink in _weighted(words):
        if direction == "h":
            canvas.rectangle(0, start * h, w, end * h, ink)
        else:
            canvas.rectangle(start * w, 0, end * w, h, ink)


def _split(canvas: Canvas, layer: Layer) -> None:
    upper, lower = _ink(layer, 0), _ink(layer, 1)
    canvas.rectangle(0, 0, canvas.width, canvas.height, lower)
    third = (0, 1) if _rises(layer) else (1, 1)
    canvas.polygon([canvas.at(*p) for p in ((0, 0), (1, 0), third)], upper)


def _rises(layer: Layer) -> bool:
    direction = layer.options.get("dir", "up")
    if direction not in ("up", "down"):
        raise ValueError(f"dir={direction} must be up or down")
    return direction == "up"


def _diagonal(canvas: Canvas, up: bool, width: float, ink: RGB, inset: float = 0) -> None:
    (x0, y0), (x1, y1) = ((inset, 1.0), (1 - inset, 0.0)) if up else ((inset, 0.0), (1 - inset, 1.0))
    start, end = canvas.at(2 * x0 - x1, 2 * y0 - y1), canvas.at(2 * x1 - x0, 2 * y1 - y0)
    canvas.polygon(stripe(start, end, width * canvas.height), ink)


def _bend(canvas: Canvas, layer: Layer) -> None:
    for width, ink in _edges(layer, layer.number("width", 0.2)):
        _diagonal(canvas, _rises(layer), width, ink, layer.number("inset", 0))


def _saltire(canvas: Canvas, layer: Layer) -> None:
    for width, ink in _edges(layer, layer.number("width", 0.15)):
        _diagonal(canvas, True, width, ink)
        _diagonal(canvas, False, width, ink)


def _triangle(canvas: Canvas, layer: Layer) -> None:
    tip, top, bottom = canvas.at(layer.number("depth", 0.4), 0.5), canvas.at(0, 0), canvas.at(0, 1)
    (outer, edge), (_, ink) = _edges(layer, 0)[0], _edges(layer, 0)[-1]
    if outer:
        # the edge is outside: strokes of twice its width along both sides, the triangle hiding half of them
        for corner in (top, bottom):
            far = (2 * corner[0] - tip[0], 2 * corner[1] - tip[1])
            canvas.polygon(stripe(far, tip, outer * canvas.height), edge)
        half = outer * canvas.height / 2
        slope = (tip[0] ** 2 + tip[1] ** 2) ** 0.5 / tip[1]
        canvas.polygon([top, (tip[0] + half * slope, tip[1]), bottom], edge)
    canvas.polygon([top, tip, bottom], ink)


def _rect(canvas: Canvas, layer: Layer) -> None:
    x0, y0, x1, y1 = _box(layer, (0, 0, 0.5, 0.5))
    canvas.rectangle(*canvas.at(x0, y0), *canvas.at(x1, y1), _ink(layer))


def _diamond(canvas: Canvas, layer: Layer) -> None:
    x0, y0, x1, y1 = _box(layer, (0.1, 0.1, 0.9, 0.9))
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    canvas.polygon([canvas.at(*p) for p in ((x, y0), (x1, y), (x, y1), (x0, y))], _ink(layer))


def _border(canvas: Canvas, layer: Layer) -> None:
    w, h, size, ink = canvas.width, canvas.height, layer.number("width", 0.06) * canvas.height, _ink(layer)
    for x0, y0, x1, y1 in ((0, 0, w, size), (0, h - size, w, h), (0, 0, size, h), (w - size, 0, w, h)):
        canvas.rectangle(x0, y0, x1, y1, ink)


def _cross(canvas: Canvas, layer: Layer) -> None:
    x, y = canvas.at(*layer.places()[0])
    for width, ink in _edges(layer, layer.number("width", 0.2)):
        half = width * canvas.height / 2
        canvas.rectangle(0, y - half, canvas.width, y + half, ink)
        canvas.rectangle(x - half, 0, x + half, canvas.height, ink)


def _plus(canvas: Canvas, layer: Layer) -> None:
    r, half, ink = layer.number("r", 0.3) * canvas.height, layer.number("width", 0.2) * canvas.height / 2, _ink(layer)
    for place in layer.places():
        x, y = canvas.at(*place)
        canvas.rectangle(x - r, y - half, x + r, y + half, ink)
        canvas.rectangle(x - half, y - r, x + half, y + r, ink)


def _disc(canvas: Canvas, layer: Layer) -> None:
    for diameter, ink in _edges(layer, 2 * layer.number("r", 0.3)):
        for place in layer.places():
            canvas.disc(*canvas.at(*place), diameter / 2 * canvas.height, ink)


def _ring(canvas: Canvas, layer: Layer) -> None:
    r, width = layer.number("r", 0.3) * canvas.height, layer.number("width", 0.04) * canvas.height
    for place in layer.places():
        x, y = canvas.at(*place)
        canvas.pen.ellipse((x - r, y - r, x + r - 1, y + r - 1), outline=_ink(layer), width=max(1, round(width)))


def _stars_at(canvas: Canvas, layer: Layer, places: Sequence[Point], r: float, angle: float) -> None:
    points = int(layer.number("points", 5))
    if points < 2:
        raise ValueError(f"points={points} must be at least 2")
    shape = star(points, layer.number("inner", 0.5 if points == 3 else BLUNT.get(points, 0.45)), angle)
    grown = r + layer.number("edgewidth", 0.04) * (2.6 if points < 6 else 1.6)
    sizes = [(grown, color(layer.options["edge"]))] if "edge" in layer.options else []
    for radius, ink in [*sizes, (r, _ink(layer))]:
        for x, y in places:
            canvas.polygon(placed(shape, x, y, radius * canvas.height), ink)


def _star(canvas: Canvas, layer: Layer) -> None:
    places = [canvas.at(*place) for place in layer.places()]
    _stars_at(canvas, layer, places, layer.number("r", 0.15), layer.number("angle", 0))


def _group(layer: Layer) -> list[Point]:
    """Returns the positions of a group's members around its center, in fractions of the height."""
    n, layout, spread = int(layer.number("n", 5)), layer.options.get("layout", "circle"), layer.number("spread", 0.25)
    angle, sweep = layer.number("angle", 0), layer.number("sweep", 180)
    steps = [i / (n - 1) if n > 1 else 0.5 for i in range(n)]
    if layout == "circle":
        return [p for i in range(n) for p in arc(0, 0, spread, spread, angle + 360 * i / n, 0, 1)[:1]]
    if layout == "arc":
        return [arc(0, 0, spread, spread, angle + (s - 0.5) * sweep, 0, 1)[0] for s in steps]
    if layout == "line":
        return [((2 * s - 1) * spread, 0.0) for s in steps]
    if layout == "column":
        return [(0.0, (2 * s - 1) * spread) for s in steps]
    if layout != "grid":
        raise ValueError(f"layout={layout} must be circle, arc, line, column or grid")
    rows = int(layer.number("rows", max(1, int(n**0.5))))
    longest, tall = -(-n // rows), layer.number("tall", spread * 0.7)
    places, left = [], n
    for row in range(rows):
        # if the number is not divisible, rows alternate (6 and 5 stars), the shorter ones filling the gaps
        count = min(left, longest if n % rows == 0 or row % 2 == 0 else longest - 1)
        y = (2 * row / (rows - 1) - 1) * tall if rows > 1 else 0.0
        gap = 2 * spread / max(1, longest - 1)
        places += [((i - (count - 1) / 2) * gap, y) for i in range(count)]
        left -= count
    return places


def _stars(canvas: Canvas, layer: Layer) -> None:
    x, y = canvas.at(*layer.places()[0])
    _stars_at(canvas, layer, placed(_group(layer), x, y, canvas.height), layer.number("r", 0.05), 0)


def _crescent(canvas: Canvas, layer: Layer) -> None:
    inner = layer.number("inner", 0.8)
    shape = rotated(crescent(inner, layer.number("shift", 1.05 - inner)), layer.number("angle", 90))
    for place in layer.places():
        canvas.polygon(placed(shape, *canvas.at(*place), layer.number("r", 0.25) * canvas.height), _ink(layer))


def _sun(canvas: Canvas, layer: Layer) -> None:
    shape = star(int(layer.number("rays", 16)), layer.number("inner", 0.62), layer.number("angle", 0))
    for place in layer.places():
        canvas.polygon(placed(shape, *canvas.at(*place), layer.number("r", 0.25) * canvas.height), _ink(layer))


def _serrated(canvas: Canvas, layer: Layer) -> None:
    teeth, x, half = int(layer.number("points", 5)), layer.number("x", 0.3), layer.number("depth", 0.12) / 2
    edge = [canvas.at(x + (half if i % 2 else -half), i / (2 * teeth)) for i in range(2 * teeth + 1)]
    canvas.polygon([canvas.at(0, 0), *edge, canvas.at(0, 1)], _ink(layer))


def _pall(canvas: Canvas, layer: Layer) -> None:
    h, fork, inset = canvas.height, canvas.at(*layer.places()[0]), layer.number("inset", 0)
    for width, ink in _edges(layer, layer.number("width", 0.2)):
        for corner in (canvas.at(0, inset), canvas.at(0, 1 - inset)):
            canvas.polygon(stripe((2 * corner[0] - fork[0], 2 * corner[1] - fork[1]), fork, width * h), ink)
        canvas.disc(*fork, width * h / 2, ink)
        canvas.rectangle(fork[0], fork[1] - width * h / 2, canvas.width, fork[1] + width * h / 2, ink)


def _wedge(canvas: Canvas, layer: Layer) -> None:
    for start, end, ink in _weighted(layer.words):
        # the top edge and the fly are one half each of the way around
        corner = [(1.0, 0.0)] if start < 0.5 < end else []
        ends = [(min(1.0, 2 * t), max(0.0, 2 * t - 1)) for t in (start, end)]
        canvas.polygon([canvas.at(*p) for p in [(0.0, 1.0), ends[0], *corner, ends[1]]], ink)


def _waves(canvas: Canvas, layer: Layer) -> None:
    x0, y0, x1, y1 = _box(layer, (0, 0.6, 1, 1))
    n, ink = int(layer.number("n", 3)), _ink(layer)
    band = (y1 - y0) / (2 * n - 1)
    periods = max(2, round((x1 - x0) * canvas.width / canvas.height * 2.5))
    xs = [i / (8 * periods) for i in range(8 * periods + 1)]
    crest = [(x0 + (x1 - x0) * x, -0.25 * band * cos(2 * pi * periods * x)) for x in xs]
    for i in range(n):
        top = y0 + 2 * i * band
        upper = [canvas.at(x, top + y) for x, y in crest]
        canvas.polygon([*upper, *(canvas.at(x, top + band + y) for x, y in reversed(crest))], ink)


def _union(canvas: Canvas, layer: Layer) -> None:
    x0, y0, x1, y1 = _box(layer, (0, 0, 0.5, 0.5))
    left, top = round(x0 * canvas.width), round(y0 * canvas.height)
    size = round(x1 * canvas.width) - left, round(y1 * canvas.height) - top
    if min(size) > 0:
        canvas.image.paste(union_flag(*size), (left, top))


def _poly(canvas: Canvas, layer: Layer) -> None:
    places = layer.places()
    if len(places) < 3:
        raise ValueError("needs at least three points, at=x,y/x,y/x,y")
    canvas.polygon([canvas.at(*place) for place in places], _ink(layer))


def _emblem(canvas: Canvas, layer: Layer) -> None:
    kind, *words = layer.words or ("",)
    if kind not in EMBLEMS:
        raise ValueError(f"unknown kind {kind!r}: use one of {', '.join(EMBLEMS)}")
    if not words:
        raise ValueError(f"{kind} needs at least one color")
    inks = tuple(color(word) for word in words)
    for place in layer.places():
        x, y = canvas.at(*place)
        EMBLEMS[kind](Pen(canvas.pen, x, y, layer.number("r", 0.2) * canvas.height, layer.number("angle", 0), inks))


EDGE = ("edge", "edgewidth")
GROUP = ("n", "layout", "at", "spread", "angle", "sweep", "rows", "tall")
Painter = Callable[[Canvas, Layer], None]
OPERATIONS: dict[str, tuple[Painter, frozenset[str]]] = {
    name: (painter, frozenset(options))
    for name, painter, *options in (
        ("field", _field),
        ("bands", _bands),
        ("split", _split, "dir"),
        ("bend", _bend, "dir", "width", "inset", *EDGE),
        ("triangle", _triangle, "depth", *EDGE),
        ("rect", _rect, "box"),
        ("diamond", _diamond, "box"),
        ("border", _border, "width"),
        ("cross", _cross, "at", "width", *EDGE),
        ("saltire", _saltire, "width", *EDGE),
        ("plus", _plus, "at", "r", "width"),
        ("disc", _disc, "at", "r", *EDGE),
        ("ring", _ring, "at", "r", "width"),
        ("star", _star, "at", "r", "points", "angle", "inner", *EDGE),
        ("stars", _stars, *GROUP, "r", "points", "inner", *EDGE),
        ("crescent", _crescent, "at", "r", "angle", "inner", "shift"),
        ("sun", _sun, "at", "r", "rays", "inner", "angle"),
        ("serrated", _serrated, "x", "points", "depth"),
        ("pall", _pall, "at", "width", "inset", *EDGE),
        ("wedge", _wedge),
        ("waves", _waves, "box", "n"),
        ("union", _union, "box"),
        ("poly", _poly, "at"),
        ("emblem", _emblem, "at", "r", "angle"),
    )
}
