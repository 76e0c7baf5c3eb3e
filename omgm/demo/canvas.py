"""The canvas that flags are painted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from omgm.demo.colors import RGB
from omgm.demo.shapes import Point


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
