"""Proposes regions for images that come without any: salient parts of a feature map, or a detector's boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from search_agents.regions import Box, ProposeRegions

LEVELS = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65)
LEAST_CONTRAST, MOST_OVERLAP, LARGEST = 0.1, 0.5, 0.85

Map = np.ndarray[Any, np.dtype[np.float32]]
_Cells = tuple[int, int, int, int]


def map_regions(cells_of: Callable[[Image.Image], Map], most: int) -> ProposeRegions:
    """Returns a function that proposes the parts of an image that differ from its border in a feature map.

    It knows no classes. It finds objects in front of a background, but nothing among many similar objects side by side.

    Args:
        cells_of: Returns the feature map of an image, float32 [H, W, width].
        most: Maximum number of regions.
    """

    def propose(image: Image.Image) -> list[Box]:
        cells = cells_of(image)
        width, height = image.width / cells.shape[1], image.height / cells.shape[0]
        found = conspicuous(contrast(cells), most)
        return [Box.of((x1 * width, y1 * height, x2 * width, y2 * height), image.size) for x1, y1, x2, y2 in found]

    return propose


def contrast(cells: Map) -> Map:
    """Measures how much each cell of a feature map [H, W, width] differs from the most similar quarter of its border.

    The difference [H, W] is 1 minus the mean cosine, scaled to 0..1 and averaged over 3 x 3 cells.
    """
    unit = cells / np.maximum(np.linalg.norm(cells, axis=-1, keepdims=True), 1e-9)
    border = np.concatenate([unit[0], unit[-1], unit[1:-1, 0], unit[1:-1, -1]])
    similar = np.sort(unit @ border.T, axis=-1)[..., -max(1, len(border) // 4) :]
    differs = 1 - similar.mean(-1)
    scaled = (differs - differs.min()) / max(float(np.ptp(differs)), 1e-9)
    padded = np.pad(scaled, 1, mode="edge")
    height, width = scaled.shape
    shifted = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.asarray(np.mean(shifted, axis=0), np.float32)


def conspicuous(differs: Map, most: int) -> list[_Cells]:
    """Returns the boxes (x1, y1, x2, y2 in cells) that stand out in a map [H, W] of values in 0..1, best first.

    Candidates are the bounding boxes of connected cells above several thresholds. The score of a box is the difference
    between its mean and that of a frame of two cells around it. If two boxes overlap by more than half, only the better
    one is kept.
    """
    height, width = differs.shape
    scored = []
    for x1, y1, x2, y2 in {box for level in LEVELS for box in _components(differs > level)}:
        area = (x2 - x1) * (y2 - y1)
        if min(x2 - x1, y2 - y1) < 2 or area < 6 or area > LARGEST * height * width:
            continue
        inside = differs[y1:y2, x1:x2]
        outer = differs[max(0, y1 - 2) : y2 + 2, max(0, x1 - 2) : x2 + 2]
        around = (outer.sum() - inside.sum()) / max(1, outer.size - inside.size)
        scored.append((float(inside.mean() - around), (x1, y1, x2, y2)))
    kept: list[_Cells] = []
    for score, box in sorted(scored, key=lambda pair: (-pair[0], pair[1])):
        if score >= LEAST_CONTRAST and all(_overlap(box, other) <= MOST_OVERLAP for other in kept):
            kept.append(box)
    return kept[:most]


def detected_regions(detect: Callable[[Image.Image], Sequence[Sequence[float]]], most: int) -> ProposeRegions:
    """Returns a function that proposes the boxes of a detector, as Vision Search Assistant does with Grounding DINO.

    Args:
        detect: Returns boxes of an image, best first: x1, y1, x2, y2 in its pixels.
        most: Maximum number of regions.
    """

    def propose(image: Image.Image) -> list[Box]:
        return list(_boxes(detect(image), image.size))[:most]

    return propose


def _boxes(corners: Sequence[Sequence[float]], size: tuple[int, int]) -> Iterator[Box]:
    """Yields the boxes that have a pixel of the image, without duplicates."""
    seen = set()
    for one in corners:
        try:
            box = Box.of(one, size)
        except ValueError:  # a box outside the image, which untrained weights can produce
            continue
        if box not in seen:
            seen.add(box)
            yield box


def _components(filled: np.ndarray[Any, np.dtype[np.bool_]]) -> Iterator[_Cells]:
    """Yields the bounding boxes of 4-connected cells."""
    left = {(int(y), int(x)) for y, x in np.argwhere(filled)}
    while left:
        reached, waiting = [], [left.pop()]
        while waiting:
            y, x = waiting.pop()
            reached.append((y, x))
            for cell in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if cell in left:
                    left.remove(cell)
                    waiting.append(cell)
        rows, columns = zip(*reached, strict=True)
        yield min(columns), min(rows), max(columns) + 1, max(rows) + 1


def _overlap(one: _Cells, other: _Cells) -> float:
    """Returns the intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0, width) * max(0, height)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return shared / (areas - shared)
