"""A camera for batches of drawings: backgrounds to place them on, and lens artifacts."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional

from omgm.demo.background import background
from omgm.demo.photo import to_pixels
from pretraining.photo_batch import photograph_batch


class Camera:
    """Photographs drawings in front of random scenes.

    Args:
        size: Side S of a photograph in pixels.
        seed: Seed of the scenes.
        scenes: Number of scenes to keep.
    """

    def __init__(self, size: int, seed: int = 0, scenes: int = 1500):
        self.size = size
        rng = random.Random(f"backgrounds {seed}")
        side = size * 5 // 4
        self.kept = torch.stack([to_pixels(background(rng, (side, side))) for _ in range(scenes)])

    def photograph(
        self,
        drawings: Tensor,
        ratios: Tensor,
        generator: torch.Generator,
        *,
        scenes: Tensor | None = None,
        flat: float = 0.0,
        small: float = 0.0,
    ) -> Tensor:
        """Returns one photograph of each drawing, float32 [B, 3, S, S] in 0..1.

        Args:
            drawings: uint8 [B, 3, h, w].
            ratios: Width over height of each, float [B].
            generator: Source of randomness.
            scenes: The background of each, uint8 [B, 3, S, S]; by default `self.scenes`.
            flat: Share of drawings printed on something stiff: these do not wave and rotate farther.
            small: Share of drawings that fill less of the frame.
        """
        scenes = self.scenes(len(drawings), generator) if scenes is None else scenes
        return soften(photograph_batch(drawings, scenes, generator, ratios, flat=flat, small=small), generator)

    def scenes(self, count: int, generator: torch.Generator) -> Tensor:
        """Returns scenes, cropped and mirrored at random, uint8 [count, 3, S, S]."""
        picked = self.kept[torch.randint(len(self.kept), (count,), generator=generator)]
        room = picked.shape[-1] - self.size
        top, left = (int(torch.randint(room + 1, (1,), generator=generator)) for _ in range(2))
        cut = picked[..., top : top + self.size, left : left + self.size]
        mirrored = torch.rand(count, generator=generator) < 0.5
        return torch.where(mirrored.view(-1, 1, 1, 1), cut.flip(-1), cut)


def soften(images: Tensor, generator: torch.Generator) -> Tensor:
    """Blurs some images and adds a little noise to all."""
    blurred = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    amount = (torch.rand(len(images), 1, 1, 1, generator=generator) * 1.6 - 0.6).clamp(min=0)
    noise = torch.randn(images.shape, generator=generator) * 0.02
    return (images.lerp(blurred, amount) + noise).clamp_(0, 1)
