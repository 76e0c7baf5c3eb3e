"""Pictures varied as a hand-held camera varies them, a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def vary(pictures: Tensor, size: int, generator: torch.Generator, strength: float = 1.0) -> Tensor:
    """Returns each picture cut, turned, lit and blurred a little by chance, float32 [B, 3, size, size] in 0..1.

    Pictures are never mirrored: flags and labels read one way only.

    Args:
        pictures: uint8 [B, 3, H, W].
        size: Side of the result in pixels.
        generator: The source of chance.
        strength: 0 only resizes; 1 cuts down to 55 % of a side and turns by up to 12 degrees.
    """
    count = len(pictures)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(count, *shape).uniform_(low, high, generator=generator)

    zoom = 1 - strength * uniform(0.0, 0.45)
    aspect = torch.exp(strength * uniform(-0.18, 0.18))
    turn = strength * uniform(-0.21, 0.21)
    # Half a radius of overshoot: the subject may stand at the frame's edge, or be cut by it.
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
    # Averaging down before sampling keeps fine print from turning into noise.
    varied = functional.grid_sample(
        pictures.float() / 255, places, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    if strength:
        varied = _light(varied, uniform, strength)
        blurred = functional.avg_pool2d(functional.pad(varied, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
        varied = varied.lerp(blurred, strength * uniform(-0.6, 0.9, 1, 1, 1).clamp(min=0))
    return varied.clamp_(0, 1)


def _light(pictures: Tensor, uniform: Callable[..., Tensor], strength: float) -> Tensor:
    gray = pictures.mean(1, keepdim=True)
    pictures = gray + (pictures - gray) * (1 + strength * uniform(-0.35, 0.35, 1, 1, 1))
    middle = pictures.mean((1, 2, 3), keepdim=True)
    pictures = middle + (pictures - middle) * (1 + strength * uniform(-0.3, 0.3, 1, 1, 1))
    brightness, tint = uniform(-0.3, 0.3, 1, 1, 1), uniform(-0.06, 0.06, 3, 1, 1)
    lit: Tensor = pictures * (1 + strength * brightness) * (1 + strength * tint)
    return lit
