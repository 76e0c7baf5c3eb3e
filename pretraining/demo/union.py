"""The British union flag, which fills the canton of many others."""

from __future__ import annotations

from functools import lru_cache

from PIL import Image, ImageDraw

from pretraining.demo.pen import Canvas
from pretraining.demo.shapes import stripe


@lru_cache(maxsize=32)
def union_flag(width: int, height: int) -> Image.Image:
    """Draws the British union flag at a size in pixels."""
    image = Image.new("RGB", (width, height), (1, 33, 105))
    canvas = Canvas(image, ImageDraw.Draw(image), width, height)
    white, red, unit = (255, 255, 255), (200, 16, 46), height / 30
    middle = canvas.at(0.5, 0.5)
    corners = [canvas.at(*p) for p in ((0, 0), (1, 0), (1, 1), (0, 1))]
    for corner in corners:
        far = (2 * corner[0] - middle[0], 2 * corner[1] - middle[1])
        canvas.polygon(stripe(middle, far, 6 * unit), white)
    for corner in corners:
        # red is on the counterclockwise side of every white arm
        far = (2 * corner[0] - middle[0], 2 * corner[1] - middle[1])
        *_, right, left = stripe(middle, far, 4 * unit)
        canvas.polygon([middle, far, right, left], red)
    for ink, half in ((white, 5 * unit), (red, 3 * unit)):
        canvas.rectangle(0, middle[1] - half, width, middle[1] + half, ink)
        canvas.rectangle(middle[0] - half, 0, middle[0] + half, height, ink)
    return image
