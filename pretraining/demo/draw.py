"""Draws flags: paints the layers of the flag language (pretraining/demo/README.md) on top of each other."""

from __future__ import annotations

from PIL import Image, ImageDraw

from pretraining.demo.flags import Flag
from pretraining.demo.painters import OPERATIONS
from pretraining.demo.pen import Canvas

OVERSAMPLING = 2


def draw(flag: Flag, height: int = 160) -> Image.Image:
    """Draws a flag as an antialiased RGB image, `height` pixels high and `round(height * ratio)` wide.

    Raises:
        ValueError: `height` is below 1, or a layer has an unknown operation, option, color or kind of emblem, or lacks
            a word. The message names the operation and the problem.
    """
    if height < 1:
        raise ValueError(f"height must be at least 1 pixel, got {height}")
    size = max(1, round(height * flag.ratio)) * OVERSAMPLING, height * OVERSAMPLING
    image = Image.new("RGB", size, (255, 255, 255))
    canvas = Canvas(image, ImageDraw.Draw(image), *size)
    for layer in flag.layers:
        if layer.operation not in OPERATIONS:
            raise ValueError(f"unknown operation {layer.operation!r}: use one of {', '.join(OPERATIONS)}")
        painter, options = OPERATIONS[layer.operation]
        if unknown := layer.options.keys() - options:
            raise ValueError(f"{layer.operation}: unknown option {min(unknown)!r}: use {', '.join(sorted(options))}")
        try:
            painter(canvas, layer)
        except ValueError as error:
            raise ValueError(f"{layer.operation}: {error}") from None
    return image.reduce(OVERSAMPLING)
