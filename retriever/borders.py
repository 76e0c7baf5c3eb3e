"""Cuts uniform borders off query images, so that what they show fills the frame as in an encyclopedia's images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA, load_image
from retriever.types import Query

TOLERANCE = 16
"""Levels by which a channel may differ from the border's color: about the noise that JPEG adds to a flat color."""

MARGIN = 0.06
"""Margin kept on each side, as a share of the longer side of the content."""

_UNIFORM = 0.97  # share of the outermost pixels that must have the border's color
_SIDE = 256  # longest side, in pixels, of the reduced copy in which the border is detected
_SMALLEST = 12  # smallest content height and width, in pixels of that copy
_LARGEST = 0.9  # share of the image above which cropping is not worth it


def without_border(query: Query) -> Query:
    """Returns a query with its image's uniform border cut off; the same query if it has none."""
    trimmed = trim(query.image)
    return query if trimmed is query.image else replace(query, image=trimmed)


def load_query_image(path: Path | str, trim_borders: bool) -> Image.Image:
    """Reads a query image as a pipeline with this `trim_borders` setting sees it.

    Raises:
        ImageError: The image cannot be read.
    """
    image = load_image(path)
    return trim(image) if trim_borders else image


def trim(image: Image.Image) -> Image.Image:
    """Crops the uniform border of an RGB image down to a margin.

    Returns the given image itself if it has no such border (photographs usually do not) or is of a single color.
    """
    edges = edges_of(image)
    if edges is None:
        return image
    trimmed = image.crop(edges)
    if content := content_of(image):
        set_content(trimmed, f"{content} trimmed")
    if (alpha := image.info.get(ALPHA)) is not None:
        trimmed.info[ALPHA] = alpha.crop(edges)
    return trimmed


def edges_of(image: Image.Image) -> tuple[int, int, int, int] | None:
    """Returns the left, top, right and bottom edge, in pixels, that `trim` crops to; `None` if it does not crop."""
    small = image.reduce(max(1, max(image.size) // _SIDE))
    pixels = np.asarray(small, dtype=np.int16)
    rim = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    color = np.median(rim, axis=0)
    if _differing(rim, color).mean() > 1 - _UNIFORM:
        return None
    differing = _differing(pixels, color)
    rows, columns = np.flatnonzero(differing.any(axis=1)), np.flatnonzero(differing.any(axis=0))
    if len(rows) < _SMALLEST or len(columns) < _SMALLEST:
        return None
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    margin = MARGIN * max(bottom - top, right - left)
    scale = np.array([image.width / small.width, image.height / small.height] * 2)
    edges = np.array([left - margin, top - margin, right + margin, bottom + margin]) * scale
    x1, y1, x2, y2 = np.clip(edges.round().astype(int), 0, [image.width, image.height] * 2).tolist()
    too_large = (x2 - x1) * (y2 - y1) > _LARGEST * image.width * image.height
    return None if too_large else (x1, y1, x2, y2)


def _differing(pixels: NDArray[np.int16], color: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns a mask of the pixels [..., 3] whose color differs from `color` [3]."""
    return np.asarray((np.abs(pixels - color) > TOLERANCE).any(axis=-1))
