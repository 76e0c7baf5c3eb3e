"""The feature map of an encoder's image tower: a vector for each cell of an image."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from PIL import Image

from retriever.models.encoder import ClipEncoder
from retriever.models.small_clip import SmallCLIP
from retriever.types import FloatArray

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
