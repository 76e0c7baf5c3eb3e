"""Lays images on others: how well do their cells agree in the best of many placements?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP
from retriever.protocols import Align

PIXELS, SIDE = 64, 16
"""Size of the images, and cells of their feature maps in both directions; deeper ones mix in what is far away."""
_SCALES = (0.58, 0.72, 0.9, 1.12, 1.4)
_TURNS = (-0.2, 0.0, 0.2)  # radians
_SHIFTS = (-0.6, -0.3, 0.0, 0.3, 0.6)  # of half an image's side
_REACH, _FREE = 1.6, 0.35
"""Farthest that a large image is shifted, in shifts; what a small one is shifted beyond the frame, as a share."""
_INSIDE = 0.3
"""Smallest share of the cells that a placement must leave within the frame."""
_AROUND = 5
"""Cells in both directions among which each cell finds its best: a photograph is in perspective, a flag waves."""
_STRIDE = 2
_PLAIN = 0.02
"""Least weight of a cell; one that looks like all of its image, such as background, says little."""


class _Placements(NamedTuple):
    """Where each placement moves each of the cells that are compared.

    Attributes:
        cells: Which cells are compared, int64 [N].
        places: Cell and place in the frame, as one number, of each cell by each placement, int64 [N * placements].
        inside: Whether the place is within the frame, float32 [N, placements].
    """

    cells: Tensor
    places: Tensor
    inside: Tensor


@lru_cache(maxsize=4)
def _placements(side: int, device: torch.device) -> _Placements:
    """Returns all placements for maps of side x side cells."""
    cells = torch.arange(side * side).view(side, side)[_STRIDE // 2 :: _STRIDE, _STRIDE // 2 :: _STRIDE].flatten()
    middle = torch.stack([cells % side, cells // side], dim=1).add(0.5) / side * 2 - 1
    places, inside = [], []
    for scale in _SCALES:
        reach = min(1 / scale, _REACH) if scale <= 1 else (1 - 1 / scale + _FREE) / max(_SHIFTS)
        for turn in _TURNS:
            cos, sin = math.cos(turn) / scale, math.sin(turn) / scale
            turned = middle @ torch.tensor([[cos, sin], [-sin, cos]])
            for shift in ((right, down) for right in _SHIFTS for down in _SHIFTS):
                moved = turned + reach * torch.tensor(shift)
                within = (moved.abs() <= 1).all(dim=1).float()
                if float(within.mean()) >= _INSIDE:
                    x, y = ((moved + 1) / 2 * side).long().clamp(0, side - 1).unbind(1)
                    places.append(y * side + x)
                    inside.append(within)
    numbers = torch.arange(len(cells))[:, None] * side * side + torch.stack(places, 1)
    return _Placements(cells.to(device), numbers.flatten().to(device), torch.stack(inside, 1).to(device))


def alignment(images: Tensor, others: Tensor) -> Tensor:
    """Returns how well each of the others agrees with the image where it is laid on it best, float32 [B], at most 1.

    Cells are compared by their cosine once the mean of both images is subtracted. Shift, turn and scale are searched;
    what hangs over the edge does not count.

    Args:
        images: Feature maps, float32 [B, C, side, side].
        others: Feature maps of the other images, of the same shape.
    """
    count, side = len(images), images.shape[-1]
    cells, places, inside = _placements(side, images.device)
    below, above = images.flatten(2).transpose(1, 2), others.flatten(2).transpose(1, 2)
    mean = (below.mean(dim=1, keepdim=True) + above.mean(dim=1, keepdim=True)) / 2
    below, above = functional.normalize(below - mean, dim=-1), functional.normalize(above - mean, dim=-1)
    whole = functional.normalize(above.mean(dim=1), dim=-1)
    above = above[:, cells]
    weight = (1 - (above @ whole[:, :, None])[..., 0]).clamp(min=_PLAIN)
    cosines = (below @ above.transpose(1, 2)).view(count, side, side, -1).permute(0, 3, 1, 2)
    near = functional.max_pool2d(cosines, (_AROUND, 1), 1, (_AROUND // 2, 0))  # twice as fast as in one step
    near = functional.max_pool2d(near, (1, _AROUND), 1, (0, _AROUND // 2)).flatten(2) * weight[..., None]
    found = near.flatten(1).index_select(1, places).view(count, *inside.shape) * inside
    best: Tensor = (found.sum(dim=1) / (weight @ inside)).amax(dim=1)
    return best


def aligner(model: SmallCLIP, pixels: PixelPreparation) -> Align:
    """Returns a function that lays images on others, by the convolutions of the embedded encoder.

    Args:
        model: The encoder's model.
        pixels: Prepares its images.
    """
    pixels = replace(pixels, size=PIXELS)

    @torch.inference_mode()
    def align(images: Sequence[Image.Image], pairs: Sequence[tuple[int, int]]) -> list[float]:
        if not pairs:
            return []
        maps = model.vision_model.local_features(pixels.to_device(images, model.device, model.dtype), SIDE).float()
        first, second = torch.tensor(pairs, device=maps.device).unbind(1)
        return [float(value) for value in alignment(maps[first], maps[second]).tolist()]

    return align
