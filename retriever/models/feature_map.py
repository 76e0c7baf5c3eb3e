"""The feature map of an encoder's image tower: a vector for each cell of an image, and one for each of many parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.models.encoder import ClipEncoder
from retriever.models.small_clip import SmallCLIP
from retriever.protocols import DualEncoder
from retriever.types import Crop, FloatArray

SIDE = 32  # cells of the embedded encoder's map in each direction


def feature_map(encoder: ClipEncoder) -> Callable[[Image.Image], FloatArray]:
    """Returns a function that computes a feature map of an image, float32 [H, W, width].

    Images are squashed into the square that the tower reads, never cropped. The map is the tower's last one, but an
    early one of the embedded encoder: its last one is coarse, and each cell sees most of the image.

    Args:
        encoder: A CLIP-type encoder whose image tower has the interface of transformers.

    Raises:
        ValueError: The encoder's image tower returns no feature map.
    """
    model, size = encoder.model, encoder.pixels.size
    if not hasattr(model, "vision_model"):
        raise ValueError("this encoder gives no feature map to propose regions from; set regions.model")
    pixels = replace(encoder.pixels, size=size, crop=False, target_ratio=None)

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


READ_SIDE = 256
"""Pixels of the whole image's sides, so that half of it is as large as what the encoder reads otherwise."""

EncodeParts = Callable[[Image.Image, Sequence[Crop]], Tensor]
"""Returns a vector per part, L2-normalized, [N, dimension]."""


def part_encoder(encoder: DualEncoder) -> EncodeParts | None:
    """Returns a function that encodes parts of an image about as if each were an image; `None` for other encoders.

    The convolutions run once, which costs as much as four images. What is beside a part reaches into its cells, so the
    vectors only tell which parts to look at. All parts must be as wide as high, as shares of the image's sides.

    Args:
        encoder: The encoder; only the embedded one can do this.
    """
    if not isinstance(encoder, ClipEncoder) or not isinstance(encoder.model, SmallCLIP):
        return None
    model, photos, pixels = encoder.model, encoder.photos, replace(encoder.pixels, size=READ_SIDE)

    @torch.inference_mode()
    def encode(image: Image.Image, parts: Sequence[Crop]) -> Tensor:
        grid = model.vision_model.grid(pixels.to_device([image], model.device, model.dtype))
        windows = [_window(part, grid.shape[-1]) for part in parts]
        found: dict[int, Tensor] = {}
        for side in {side for _, _, side in windows}:
            numbers = [number for number, window in enumerate(windows) if window[2] == side]
            cut = [grid[:, :, y : y + side, x : x + side] for x, y, _ in (windows[number] for number in numbers)]
            pooled = model.vision_model.mixed(torch.cat(cut)).pooler_output
            found |= zip(numbers, model.visual_projection(pooled).float(), strict=True)
        own = functional.normalize(torch.stack([found[number] for number in range(len(parts))]), dim=-1)
        if photos is None:
            return own
        cells = photos.cells(image, READ_SIDE)
        places = [_window(part, cells.shape[-1]) for part in parts]
        seen = [cells[:, y : y + side, x : x + side].mean((1, 2)) for x, y, side in places]
        return photos.joined(own, torch.stack(seen))

    return encode


def _window(part: Crop, cells: int) -> tuple[int, int, int]:
    """Returns the left and top cell of a part, and its number of cells in both directions, at least 1."""
    left, top, right, _ = part
    side = max(1, round((right - left) * cells))
    return min(round(left * cells), cells - side), min(round(top * cells), cells - side), side
