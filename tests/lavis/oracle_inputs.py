"""Images on which LAVIS and our implementation are compared."""

from __future__ import annotations

import numpy as np
from PIL import Image


def sample_image(width: int, height: int) -> Image.Image:
    """Returns a detailed image, always the same for a given size."""
    values = np.random.default_rng(width * 1000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)
