"""The canvas that flags are painted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from demo.colors import RGB
from demo.shapes import Point


@dataclass(frozen=True, slots=True)
class Canvas:
    """The oversampled picture that layers are painted on; `width` and `height` are its pixels."""

    image: Image.Image
    pen: ImageDraw.ImageDraw
    width: int
    height: int

    def at(self, x: float, y: float) -> Point:
        """Returns the pixel of a place given in fractions of the flag."""
        return x * self.width, y * self.height

    def polygon(self, points: Sequence[Point], ink: RGB) -> None:
        """Fills a polygon given in pixels."""
        self.pen.polygon(list(points), fill=ink)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, ink: RGB) -> None:
        """Fills a rectangle given in pixels, the right and lower edge excluded; nothing when it is empty."""
        left, top, right, bottom = round(x0), round(y0), round(x1) - 1, round(y1) - 1
        if left <= right and top <= bottom:
            self.pen.rectangle((left, top, right, bottom), fill=ink)

    def disc(self, x: float, y: float, r: float, ink: RGB) -> None:
        """Fills a circle given in pixels."""
        self.pen.ellipse((x - r, y - r, x + r - 1, y + r - 1), fill=ink)
