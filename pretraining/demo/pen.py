"""The canvas that flags are painted on, and the pen that paints emblems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from pretraining.demo.colors import RGB
from pretraining.demo.shapes import Point, arc, placed, rotated


@dataclass(frozen=True, slots=True)
class Canvas:
    """The oversampled image that layers are painted on; `width` and `height` are in pixels."""

    image: Image.Image
    pen: ImageDraw.ImageDraw
    width: int
    height: int

    def at(self, x: float, y: float) -> Point:
        """Converts a position from fractions of the flag to pixels."""
        return x * self.width, y * self.height

    def polygon(self, points: Sequence[Point], ink: RGB) -> None:
        """Fills a polygon, in pixels."""
        self.pen.polygon(list(points), fill=ink)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, ink: RGB) -> None:
        """Fills a rectangle, in pixels, without its right and lower edge; an empty one is skipped."""
        left, top, right, bottom = round(x0), round(y0), round(x1) - 1, round(y1) - 1
        if left <= right and top <= bottom:
            self.pen.rectangle((left, top, right, bottom), fill=ink)

    def disc(self, x: float, y: float, r: float, ink: RGB) -> None:
        """Fills a circle, in pixels."""
        self.pen.ellipse((x - r, y - r, x + r - 1, y + r - 1), fill=ink)


@dataclass(frozen=True, slots=True)
class Pen:
    """Paints in an emblem's own units: (0, 0) is its center, 1 its radius, `y` points down.

    Args:
        canvas: The image to paint on.
        x: Center of the emblem in pixels.
        y: Center of the emblem in pixels.
        r: Radius of the emblem in pixels.
        angle: Clockwise rotation in degrees.
        inks: The emblem's colors; an index beyond the last one wraps around.
    """

    canvas: ImageDraw.ImageDraw
    x: float
    y: float
    r: float
    angle: float
    inks: tuple[RGB, ...]

    def ink(self, index: int | RGB) -> RGB:
        """Returns color `index` of the emblem; an RGB color is returned unchanged."""
        return self.inks[index % len(self.inks)] if isinstance(index, int) else index

    def _pixels(self, points: Sequence[Point]) -> list[Point]:
        return placed(rotated(points, self.angle) if self.angle else points, self.x, self.y, self.r)

    def polygon(self, ink: int | RGB, points: Sequence[Point]) -> None:
        """Fills a polygon."""
        self.canvas.polygon(self._pixels(points), fill=self.ink(ink))

    def oval(self, ink: int | RGB, x: float, y: float, rx: float, ry: float, tilt: float = 0) -> None:
        """Fills an ellipse, rotated clockwise by `tilt` degrees around its own center."""
        self.polygon(ink, placed(rotated(arc(0, 0, rx, ry, 0, 360, 20), tilt), x, y, 1))

    def disc(self, ink: int | RGB, x: float, y: float, r: float) -> None:
        """Fills a circle."""
        [(px, py)] = self._pixels([(x, y)])
        size = r * self.r
        self.canvas.ellipse((px - size, py - size, px + size, py + size), fill=self.ink(ink))

    def line(self, ink: int | RGB, width: float, points: Sequence[Point]) -> None:
        """Draws a line through all points."""
        self.canvas.line(self._pixels(points), fill=self.ink(ink), width=max(1, round(width * self.r)), joint="curve")

    def inner(self, x: float, y: float, scale: float, *inks: int | RGB, angle: float = 0) -> Pen:
        """Returns a pen for a smaller emblem inside this one; without `inks` it has the same colors."""
        [(px, py)] = self._pixels([(x, y)])
        chosen = tuple(self.ink(ink) for ink in inks) or self.inks
        return Pen(self.canvas, px, py, self.r * scale, self.angle + angle, chosen)


Painter = Callable[[Pen], None]
