"""The sheet that designs are painted on, and helpers for all layers: colors, outlines, fills and lettering."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pretraining.demo.colors import RGB
from pretraining.demo.shapes import Point

FONT_FOLDER = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Bold", "DejaVuSans-BoldOblique", "DejaVuSans-Oblique",
    "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Bold",
    "DejaVuSerif-Italic", "DejaVuSansDisplay", "DejaVuSerifDisplay", "STIXGeneral", "STIXGeneralBol",
    "STIXGeneralItalic", "cmss10", "cmtt10",
)  # fmt: skip
SCRIPTS = {  # first and last letter, with the weight of the script
    ("a", "z"): 40, ("A", "Z"): 40, ("0", "9"): 8,
    ("\u0391", "\u03a9"): 4, ("\u03b1", "\u03c9"): 3,  # Greek
    ("\u0410", "\u042f"): 5, ("\u0430", "\u044f"): 4,  # Cyrillic
    ("\u0531", "\u0556"): 2, ("\u10d0", "\u10f0"): 2,  # Armenian, Georgian
}  # fmt: skip
LATIN_ONLY = ("cm", "STIX", "DejaVuSansDisplay", "DejaVuSerifDisplay")
SYMBOLS = "".join(
    chr(code)
    for first, last in ((0x2600, 0x26B0), (0x2701, 0x27BE), (0x2190, 0x21FF), (0x25A0, 0x25FF), (0x2654, 0x265F))
    for code in range(first, last)
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a layer is painted on: the image so far, its pen, and the layer's colors, the first of which stands out."""

    image: Image.Image
    pen: ImageDraw.ImageDraw
    colors: tuple[RGB, ...]
    rng: random.Random

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.size

    @property
    def unit(self) -> float:
        """The shorter side in pixels."""
        return float(min(self.image.size))

    def color(self) -> RGB:
        """Draws one of the layer's colors."""
        return self.rng.choice(self.colors)

    def place(self, margin: float = 0.1) -> Point:
        """Draws a point: often the middle, otherwise anywhere outside the margin (a share of each side)."""
        width, height = self.size
        if self.rng.random() < 0.4:
            return width / 2, height / 2
        low, high = margin, 1 - margin
        return width * self.rng.uniform(low, high), height * self.rng.uniform(low, high)

    def fill(self, outline: Sequence[Point], color: RGB | None = None) -> None:
        """Fills an outline with a solid color, a gradient or stripes, or strokes only its edge."""
        rng, first = self.rng, color or self.colors[0]
        kind = rng.random()
        if kind < 0.6:
            self.pen.polygon(list(outline), fill=first)
        elif kind < 0.75:
            width = max(1, round(self.unit * rng.uniform(0.01, 0.06)))
            self.pen.line([*outline, *outline[:2]], fill=first, width=width)
        else:
            box = _box(outline, self.size)
            if box is None:
                return
            size = (box[2] - box[0], box[3] - box[1])
            second = self.color()
            paint = gradient(size, first, second, rng) if kind < 0.9 else stripes(size, first, second, rng)
            mask = Image.new("L", size)
            ImageDraw.Draw(mask).polygon([(x - box[0], y - box[1]) for x, y in outline], fill=255)
            self.image.paste(paint, box[:2], mask)


def _box(outline: Sequence[Point], size: tuple[int, int]) -> tuple[int, int, int, int] | None:
    xs, ys = [x for x, _ in outline], [y for _, y in outline]
    left, top = max(0, math.floor(min(xs))), max(0, math.floor(min(ys)))
    right, bottom = min(size[0], math.ceil(max(xs)) + 1), min(size[1], math.ceil(max(ys)) + 1)
    return (left, top, right, bottom) if right > left and bottom > top else None


def gradient(size: tuple[int, int], first: RGB, second: RGB, rng: random.Random) -> Image.Image:
    """Returns an image that runs from one color to the other, along a line or from a point outward."""
    y, x = np.mgrid[0:1:24j, 0:1:24j]
    if rng.random() < 0.6:
        angle = rng.uniform(0, 2 * math.pi)
        share = 0.5 + (math.cos(angle) * (x - 0.5) + math.sin(angle) * (y - 0.5)) * rng.uniform(0.7, 1.4)
    else:
        share = np.hypot(x - rng.uniform(0.2, 0.8), y - rng.uniform(0.2, 0.8)) * rng.uniform(1.0, 2.2)
    share = np.clip(share, 0, 1)[..., None]
    colors = np.array(first) * (1 - share) + np.array(second) * share
    return Image.fromarray(colors.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)


def stripes(size: tuple[int, int], first: RGB, second: RGB, rng: random.Random) -> Image.Image:
    """Returns parallel stripes of two colors at any angle."""
    angle, width = rng.uniform(0, math.pi), rng.uniform(0.04, 0.3) * min(size) + 2
    y, x = np.mgrid[0 : size[1], 0 : size[0]]
    odd = ((math.cos(angle) * x + math.sin(angle) * y) / width).astype(np.int64) % 2 == 1
    return Image.fromarray(np.where(odd[..., None], np.array(second), np.array(first)).astype(np.uint8))


def blob(x: float, y: float, r: float, rng: random.Random, fold: int = 1) -> list[Point]:
    """Returns a closed smooth outline around (x, y), about `r` wide, with `fold`-fold symmetry."""
    waves = [(k * fold, rng.uniform(0, 0.5) / k**0.7, rng.uniform(0, 2 * math.pi)) for k in range(1, rng.randint(2, 6))]
    stretch, turn = rng.uniform(0.5, 1), rng.uniform(0, math.pi)
    points = []
    for step in range(72):
        angle = step * math.pi / 36
        radius = r * max(0.08, 0.75 + sum(a * math.sin(k * angle + p) for k, a, p in waves))
        u, v = radius * math.cos(angle), radius * math.sin(angle) * (stretch if fold == 1 else 1)
        points.append((x + u * math.cos(turn) - v * math.sin(turn), y + u * math.sin(turn) + v * math.cos(turn)))
    return points


def curve(points: Sequence[Point], closed: bool = False) -> list[Point]:
    """Returns a smooth curve through points (a Catmull-Rom spline)."""
    count = len(points)
    line = []
    for i in range(count if closed else count - 1):
        a, b, c, d = (
            points[(i + j) % count] if closed else points[min(max(i + j, 0), count - 1)] for j in (-1, 0, 1, 2)
        )
        for t in (step / 8 for step in range(8)):
            line.append(
                tuple(
                    0.5
                    * (
                        2 * b[n]
                        + (c[n] - a[n]) * t
                        + (2 * a[n] - 5 * b[n] + 4 * c[n] - d[n]) * t * t
                        + (3 * b[n] - a[n] - 3 * c[n] + d[n]) * t**3
                    )
                    for n in (0, 1)
                )
            )
    return [*((float(p[0]), float(p[1])) for p in line), points[0] if closed else points[-1]]


@cache
def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """Returns a font that ships with matplotlib; `size` is in pixels."""
    return ImageFont.truetype(str(FONT_FOLDER / f"{name}.ttf"), size)


def word(rng: random.Random, name: str, longest: int = 9) -> str:
    """Draws a made-up word in a script that the font supports."""
    scripts = list(SCRIPTS)[:3] if name.startswith(LATIN_ONLY) else list(SCRIPTS)
    first, last = rng.choices(scripts, [SCRIPTS[script] for script in scripts])[0]
    letters = "".join(chr(rng.randint(ord(first), ord(last))) for _ in range(rng.randint(1, longest)))
    return letters.capitalize() if rng.random() < 0.3 else letters
