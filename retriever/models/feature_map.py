"""The feature map of an encoder's image tower: a vector for each cell of an image, and one for each of many parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.models.photo_tower import PhotoTower
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP
from retriever.protocols import EncodeParts, FeatureMap
from retriever.types import Crop, FloatArray

SIDE = 32  # cells of the embedded encoder's map in each direction


def feature_map(model: Any, pixels: PixelPreparation) -> FeatureMap | None:
    """Returns a function that computes a feature map of an image, float32 [H, W, width].

    Images are squashed into the square that the tower reads, never cropped. The map is the tower's last one, but an
    early one of the embedded encoder: its last one is coarse, and each cell sees most of the image.

    Args:
        model: A CLIP-type model. Without an image tower that has the interface of transformers, there is no map.
        pixels: Prepares its images.
    """
    if not hasattr(model, "vision_model"):
        return None
    pixels = replace(pixels, crop=False, target_ratio=None)

    def cells_of(image: Image.Image) -> FloatArray:
        given = pixels.to_device([image], model.device, model.dtype)
        with torch.inference_mode():
            if isinstance(model, SmallCLIP):
                grid = model.vision_model.local_features(given, SIDE)
                return np.asarray(grid[0].permute(1, 2, 0).float().cpu().numpy())
            hidden = model.vision_model(given).last_hidden_state[0].float().cpu().numpy()
        side = math.isqrt(len(hidden))
        return np.asarray(hidden[len(hidden) - side * side :].reshape(side, side, -1))  # without the leading tokens

    return cells_of


READ_SIDE, PART_SIDE = 160, 4
"""Pixels of the whole image's sides, and cells of a part's in which the encoder attends to it. Of 265 things on other
photographs (.5 to .8 of the sides), the best two parts had 206, and 192 with 256 pixels and all cells, at 4 times the
cost."""


def part_encoder(model: SmallCLIP, pixels: PixelPreparation, photos: PhotoTower | None) -> EncodeParts:
    """Returns a function that encodes parts of an image about as if each were an image.

    The convolutions run once, which costs as much as two images. What is beside a part reaches into its cells, so the
    vectors only tell which parts to look at. All parts must be as wide as high, as shares of the image's sides.

    Args:
        model: The embedded encoder's model.
        pixels: Prepares its images.
        photos: Its part that knows photographs, if it has one.
    """
    pixels = replace(pixels, size=READ_SIDE)

    @torch.inference_mode()
    def encode(image: Image.Image, parts: Sequence[Crop]) -> Tensor:
        grid = model.vision_model.grid(pixels.to_device([image], model.device, model.dtype))
        windows = (_window(part, grid.shape[-1]) for part in parts)
        cut = [
            functional.adaptive_avg_pool2d(grid[:, :, y : y + side, x : x + side], PART_SIDE) for x, y, side in windows
        ]
        pooled = model.vision_model.mixed(torch.cat(cut)).pooler_output
        own = functional.normalize(model.visual_projection(pooled).float(), dim=-1)
        if photos is None:
            return own
        cells = photos.cells(image, READ_SIDE)
        places = [_window(part, cells.shape[-1]) for part in parts]
        means = {side: functional.avg_pool2d(cells, side, stride=1) for side in {side for _, _, side in places}}
        seen = [means[side][:, y, x] for x, y, side in places]
        return photos.joined(own, torch.stack(seen))

    return encode


def _window(part: Crop, cells: int) -> tuple[int, int, int]:
    """Returns the left and top cell of a part, and its number of cells in both directions, at least 1."""
    left, top, right, _ = part
    side = max(1, round((right - left) * cells))
    return min(round(left * cells), cells - side), min(round(top * cells), cells - side), side
