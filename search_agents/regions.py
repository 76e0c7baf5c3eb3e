"""Regions of an image: boxes in its original pixels, and the overlay that numbers them (set-of-mark)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from retriever.images import original_size

_COLORS = ("#e6194b", "#0050c8", "#2e8b22", "#b000b5", "#b85c00", "#00757a")


class Box(NamedTuple):
    """A region in pixels; `right` and `bottom` are exclusive, as in Pillow."""

    left: int
    top: int
    right: int
    bottom: int

    @classmethod
    def of(cls, corners: Sequence[float], size: tuple[int, int]) -> Box:
        """Creates a box from two corners (x1, y1, x2, y2) in an image of a given size (width, height).

        Swapped corners are reordered, and the box is clipped to the image.

        Raises:
            ValueError: There are not four finite numbers, or the box contains no pixel of the image.

        Example:
            >>> Box.of([90, 10, 20, 400], (100, 200))
            Box(left=20, top=10, right=90, bottom=200)
        """
        if len(corners) != 4 or not all(math.isfinite(value) for value in corners):
            raise ValueError(f"a box needs four finite numbers, x1 y1 x2 y2; got {list(corners)}")
        (left, right), (top, bottom) = sorted(corners[0::2]), sorted(corners[1::2])
        width, height = size
        box = cls(
            max(0, math.floor(left)), max(0, math.floor(top)),
            min(width, math.ceil(right)), min(height, math.ceil(bottom)),
        )  # fmt: skip
        if box.left >= box.right or box.top >= box.bottom:
            raise ValueError(f"the box {list(corners)} has no pixel of the image, which is {width} x {height}")
        return box

    def scaled(self, size: tuple[int, int], to: tuple[int, int]) -> Box:
        """Returns the same region in an image of another size (width, height), at least one pixel large.

        Example:
            >>> Box(20, 10, 90, 101).scaled((200, 200), (100, 100))
            Box(left=10, top=5, right=45, bottom=51)
        """
        left, right = _scaled(self.left, self.right, size[0], to[0])
        top, bottom = _scaled(self.top, self.bottom, size[1], to[1])
        return Box(left, top, right, bottom)

    def crop(self, image: Image.Image) -> Image.Image:
        """Returns the part of an image inside the box."""
        return image.crop(self)


def boxes_of(corners: Sequence[Sequence[float]], image: Image.Image) -> list[Box]:
    """Returns boxes in pixels of `image`, from corners in pixels of the original, before it was shrunk on loading.

    Raises:
        ValueError: See `Box.of`.
    """
    size = original_size(image)
    return [Box.of(one, size).scaled(size, image.size) for one in corners]


def _scaled(start: int, end: int, size: int, to: int) -> tuple[int, int]:
    first = min(start * to // size, to - 1)
    return first, max(first + 1, -(-end * to // size))


ProposeRegions = Callable[[Image.Image], Sequence[Box]]
"""Proposes regions of an image, the most conspicuous first."""


def overlay(image: Image.Image, boxes: Sequence[Box]) -> Image.Image:
    """Returns a copy of an image with each box outlined, not filled, and numbered from 1."""
    copy = image.convert("RGB")
    draw = ImageDraw.Draw(copy)
    line = max(1, round(min(image.size) / 200))
    font = ImageFont.load_default(max(10, round(min(image.size) / 25)))
    for number, box in enumerate(boxes, start=1):
        color = _COLORS[(number - 1) % len(_COLORS)]
        draw.rectangle((box.left, box.top, box.right - 1, box.bottom - 1), outline=color, width=line)
        at = (box.left + line + 1, box.top + line)
        draw.text(at, str(number), fill=color, font=font, stroke_width=max(1, line), stroke_fill="white")
    return copy
