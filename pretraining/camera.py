"""A camera for batches of drawings: photographs of flags, backgrounds to place drawings on, and lens artifacts."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional

from pretraining.demo.background import background
from pretraining.demo.photo import compose, draw_poses, light, to_pixels

FRAME = 1.25  # width over height of the photograph
SMALLEST = 0.45  # minimum factor by which `small` drawings are scaled down
STIFF_TILT = 2.0  # stiff things rotate up to this many times as far as a flag


def photograph_batch(
    drawings: torch.Tensor,
    backgrounds: torch.Tensor,
    generator: torch.Generator,
    ratios: torch.Tensor | None = None,
    flat: float = 0.0,
    small: float = 0.0,
) -> torch.Tensor:
    """Returns a photograph of each drawing, a 5:4 frame resized to a square, float32 [B, 3, S, S] in 0..1.

    Args:
        drawings: uint8 [B, 3, h, w], all flags resized to the same h x w.
        backgrounds: uint8 [B, 3, S, S].
        generator: Source of randomness.
        ratios: Width over height of each drawing, float [B]; drawn between 1.4 and 2 by default.
        flat: Share of drawings on something stiff, which does not wave and may rotate farther; the others are flags.
        small: Share of drawings that fill less of the frame, down to a fifth of its width.

    Raises:
        ValueError: `drawings` and `backgrounds` are not uint8 [B, 3, _, _] with the same B.
    """
    for name, batch in (("drawings", drawings), ("backgrounds", backgrounds)):
        if batch.dtype != torch.uint8 or batch.ndim != 4 or batch.shape[1] != 3 or len(batch) != len(drawings):
            raise ValueError(f"{name} must be uint8 [B, 3, h, w], one per flag, got {batch.dtype} {list(batch.shape)}")
    poses = draw_poses(len(drawings), generator, ratios)
    if flat:
        stiff = torch.rand(len(drawings), 1, 1, generator=generator) < flat
        for name, factor in {"wave": 0.0, "fold": 0.0, "tilt": STIFF_TILT}.items():
            poses[name] = torch.where(stiff, factor * poses[name], poses[name])
    if small:
        shrunk = torch.rand(len(drawings), 1, 1, generator=generator) < small
        share = torch.empty(len(drawings), 1, 1).uniform_(SMALLEST, 1, generator=generator)
        poses["scale"] = torch.where(shrunk, share * poses["scale"], poses["scale"])
    scene = compose(drawings, backgrounds, poses, FRAME)
    lit = light(scene, generator)
    return _grain(lit, generator).clamp_(0, 1)


def _grain(scene: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Softens a random slice of the batch and adds the noise of a poor sensor to another."""
    count = len(scene)
    if count > 3:
        third = count // 3
        start = int(torch.randint(count - third + 1, (1,), generator=generator))
        part = scene[start : start + third]
        for axis in (2, 3):  # [1, 2, 1] / 4 along each axis
            size = part.shape[axis] - 1
            middles = torch.lerp(part.narrow(axis, 0, size), part.narrow(axis, 1, size), 0.5)
            torch.lerp(
                middles.narrow(axis, 0, size - 1),
                middles.narrow(axis, 1, size - 1),
                0.5,
                out=part.narrow(axis, 1, size - 1),
            )
        start = int(torch.randint(count - third + 1, (1,), generator=generator))
        part = scene[start : start + third]
        tiles = torch.randn(8, *scene.shape[1:], generator=generator)
        which = torch.randint(8, (third,), generator=generator)
        strength = 0.06 * torch.rand(third, 1, 1, 1, generator=generator)
        part.addcmul_(tiles[which], strength)
    return scene


def resized(images: torch.Tensor, size: int) -> torch.Tensor:
    """Resizes square images [B, 3, S, S] to `size` x `size`; those of that size are returned as they are."""
    if images.shape[-1] == size:
        return images
    return functional.interpolate(images, [size, size], mode="bilinear", antialias=True)


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
