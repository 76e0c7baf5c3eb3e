"""Shortens screenshots of whole pages: narrows blank areas and cuts the rest into slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

GAP = 16
"""Pixels of a blank area that remain, so that paragraphs and columns stay apart."""
EDGE = 32
"""Smallest gradient that does not count as blank: a step of 8 of 255 levels, as between white and the palest gray of
texts. The largest possible gradient is 1020."""
SLICE, SLICES = 512, 10

_Gray = np.ndarray[Any, np.dtype[np.int16]]


def slim(page: Image.Image) -> Image.Image:
    """Narrows the blank rows and columns of a page to `GAP` pixels, as in appendix B of MMSearch (arXiv 2409.12959).

    A row or column is blank if no Sobel gradient in it reaches `EDGE` in any color. The paper removes blank areas
    iteratively; here one pass suffices, because no blank row contains an edge of any column. All other pixels are kept
    unchanged. A page without edges is returned unchanged.
    """
    pixels = np.asarray(page.convert("RGB"))
    edges = np.zeros(pixels.shape[:2], dtype=bool)
    for channel in range(3):
        edges |= _gradient(pixels[..., channel].astype(np.int16)) >= EDGE
    if not edges.any():
        return page
    rows, columns = (np.flatnonzero(_kept(np.asarray(edges.any(axis)))) for axis in (1, 0))
    return Image.fromarray(pixels[np.ix_(rows, columns)])


def slices(page: Image.Image) -> list[Image.Image]:
    """Cuts a page, from the top, into at most `SLICES` images of `SLICE` rows; the last one may be shorter."""
    tops = range(0, min(page.height, SLICE * SLICES), SLICE)
    return [page.crop((0, top, page.width, min(top + SLICE, page.height))) for top in tops]


def _gradient(gray: _Gray) -> _Gray:
    """Returns the larger absolute value of the two Sobel gradients at every pixel, with the border pixels repeated."""
    padded = np.pad(gray, 1, mode="edge")
    rows = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    across = np.abs(rows[:, 2:] - rows[:, :-2])
    columns = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    down: _Gray = np.abs(columns[2:] - columns[:-2])
    return np.maximum(across, down)


def _kept(filled: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns which rows (or columns) remain: all that are filled, and `GAP` of each blank run, half at each end."""
    kept = filled.copy()
    at = np.flatnonzero(filled)
    starts, ends = [0, *(at + 1)], [*at, len(filled)]
    for start, end in zip(starts, ends, strict=True):
        if end - start <= GAP:
            kept[start:end] = True
        else:
            kept[start : start + GAP // 2] = True
            kept[end - GAP // 2 : end] = True
    return kept
