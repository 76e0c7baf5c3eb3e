"""Cuts uniform borders off images, so that what they show fills the frame.

Query images are cut. Images of an index are also kept as they are, since a photograph may show a whole flag or label.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from retriever.image_cache import content_of, set_content
from retriever.images import ALPHA, load_image
from retriever.types import Query

RULE = "cut off without a margin"
"""Changes whenever `trim` does: what was computed from images that another rule trimmed does not fit."""

TOLERANCE = 16
"""Levels by which a channel may differ from the border's color: about the noise that JPEG adds to a flat color."""

_UNIFORM = 0.97  # share of the outermost pixels that must have the border's color
_SIDE = 256  # longest side, in pixels, of the reduced copy in which the border is detected
_BLURRED = 1  # pixels of that copy that are cut off with the border, whose color they may be mixed with
_MARGIN = 0.06  # of the border, as a share of the longer side, that stays around what has only one color
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
    """Crops an RGB image to what is within its uniform border, again and again while that has a border itself.

    No margin is left, so that it makes no difference how wide a border was, or that a frame is around an image with a
    border; except around a single color, which alone would show nothing. Returns the given image itself if it has no
    such border (photographs usually do not) or only one color.
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
    edges, left, top, more = None, 0, 0, True
    while more and (inner := _inner_edges(image)) is not None:
        (x1, y1, x2, y2), more = inner
        image, edges = image.crop((x1, y1, x2, y2)), (left + x1, top + y1, left + x2, top + y2)
        left, top = edges[:2]
    return edges


def _inner_edges(image: Image.Image) -> tuple[tuple[int, int, int, int], bool] | None:
    """Returns the edges within the outermost border, and whether to look for another: a margin that stays is none."""
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
    high, wide = rows[-1] + 1 - rows[0], columns[-1] + 1 - columns[0]
    if high * wide > _LARGEST * small.width * small.height:
        return None
    corners = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) + _BLURRED * np.array([1, 1, -1, -1])
    within = pixels[corners[1] : corners[3], corners[0] : corners[2]]
    has_shapes = bool(_differing(within, np.median(within, axis=(0, 1))).any())
    if not has_shapes:
        corners = corners + round(_MARGIN * max(high, wide)) * np.array([-1, -1, 1, 1])
    sides = np.array([image.width, image.height] * 2)
    scaled = corners * sides / np.array([small.width, small.height] * 2)
    x1, y1, x2, y2 = np.clip(scaled.round().astype(int), 0, sides).tolist()
    return (x1, y1, x2, y2), has_shapes


def _differing(pixels: NDArray[np.int16], color: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns a mask of the pixels [..., 3] whose color differs from `color` [3]."""
    return np.asarray((np.abs(pixels - color) > TOLERANCE).any(axis=-1))
