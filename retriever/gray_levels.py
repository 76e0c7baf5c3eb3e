"""Converts gray images with more than 256 levels, of cameras, scanners and instruments, to 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DEEP_MODES = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's modes of images with more than 8 bits per pixel; its own conversions would clip at 255."""
_DEPTHS = (8, 10, 12, 14, 16)
"""Bits per pixel of cameras and scanners."""


def to_eight_bits(image: Image.Image) -> Image.Image:
    """Returns an image of one of the `DEEP_MODES` in mode L, scaled by the range of its values.

    The range of whole numbers and of numbers above 1 is that of the fewest bits, of 8, 10, 12, 14 and 16, which hold
    all of them, since a file does not say how many are used; that of other numbers is 0 to 1. If there are negative
    numbers or larger ones, the range is that from the smallest to the largest number. What is not a number is black.
    """
    return Image.fromarray(eight_bits(np.asarray(image)))


def eight_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns numbers as levels of 8 bits, uint8 of the same shape; see `to_eight_bits`."""
    finite = np.isfinite(values)
    known = values[finite]
    if not known.size:
        return np.zeros(values.shape, np.uint8)
    least, most = float(known.min()), float(known.max())
    if least < 0 or most >= 1 << _DEPTHS[-1]:
        low, high = least, most
    elif values.dtype.kind == "f" and most <= 1:
        low, high = 0.0, 1.0
    else:
        low, high = 0.0, float((1 << next(bits for bits in _DEPTHS if most < 1 << bits)) - 1)
    scaled = (np.where(finite, values, low).astype(np.float32) - low) * (255 / ((high - low) or 1))
    levels: NDArray[np.uint8] = scaled.round().clip(0, 255).astype(np.uint8)
    return levels
