"""Augments batches of images the way a hand-held camera varies them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ROOM = 1.25
"""Images to augment are kept this much larger than the model's input, so that a crop loses little."""
SLIGHT = 0.3
"""Strength for main images, which an index contains unchanged."""


def vary(images: Tensor, size: int, generator: torch.Generator, strength: float = 1.0) -> Tensor:
    """Randomly crops, rotates, relights and blurs each image; returns float32 [B, 3, size, size] in 0..1.

    Images are never mirrored: flags and labels read one way only.

    Args:
        images: uint8 [B, 3, H, W].
        size: Side of the result in pixels.
        generator: Source of randomness.
        strength: 0 only resizes; 1 crops to as little as 55 % of a side and rotates by up to 12 degrees.
    """
    count = len(images)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(count, *shape).uniform_(low, high, generator=generator)

    zoom = 1 - strength * uniform(0.0, 0.45)
    aspect = torch.exp(strength * uniform(-0.18, 0.18))
    turn = strength * uniform(-0.21, 0.21)
    # The crop may extend slightly beyond the image: the subject may be at the edge of the frame, or cut off by it.
    slack = (1 - zoom + 0.1 * strength).clamp(min=0)
    shift_x, shift_y = slack * uniform(-1, 1), slack * uniform(-1, 1)
    cos, sin = torch.cos(turn) * zoom, torch.sin(turn) * zoom
    grid = torch.stack(
        [
            torch.stack([cos * aspect, -sin, shift_x], -1),
            torch.stack([sin, cos / aspect, shift_y], -1),
        ],
        1,
    )
    places = functional.affine_grid(grid, [count, 3, size, size], align_corners=False)
    varied = functional.grid_sample(
        images.float().div_(255), places, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    if strength:
        varied = _light(varied, uniform, strength)
        varied = varied.lerp(_blurred(varied), strength * uniform(-0.6, 0.9, 1, 1, 1).clamp(min=0))
    return varied.clamp_(0, 1)


def resized(images: Tensor, size: int) -> Tensor:
    """Resizes images without augmentation, uint8 [B, 3, H, W], to float32 [B, 3, size, size] in 0..1."""
    return functional.interpolate(images.float() / 255, (size, size), mode="bilinear", antialias=True)


def _light(images: Tensor, uniform: Callable[..., Tensor], strength: float) -> Tensor:
    """Changes saturation, contrast, brightness and tint of each image."""
    gray = images.mean(1, keepdim=True)
    images = (images - gray).mul_(1 + strength * uniform(-0.35, 0.35, 1, 1, 1)).add_(gray)
    middle = images.mean((1, 2, 3), keepdim=True)
    images.sub_(middle).mul_(1 + strength * uniform(-0.3, 0.3, 1, 1, 1)).add_(middle)
    brightness, tint = uniform(-0.3, 0.3, 1, 1, 1), uniform(-0.06, 0.06, 3, 1, 1)
    return images.mul_(1 + strength * brightness).mul_(1 + strength * tint)


def _blurred(images: Tensor) -> Tensor:
    """Returns means over 3 x 3 pixels, rows first, which takes half the time of pooling; edges are repeated."""
    padded = functional.pad(images, (1, 1, 1, 1), mode="replicate")
    rows = (padded[:, :, :-2] + padded[:, :, 1:-1]).add_(padded[:, :, 2:])
    return (rows[..., :-2] + rows[..., 1:-1]).add_(rows[..., 2:]).div_(9)
