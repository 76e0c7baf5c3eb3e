"""Turns drawings into photographs: a waving flag, tilted and lit, in front of a cluttered background."""

from __future__ import annotations

import math
import random
from io import BytesIO

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch.nn import functional

from pretraining.demo.background import background

Poses = dict[str, torch.Tensor]

RANGES = {  # lengths in frame heights, angles in radians
    "ratio": (1.4, 2.0),
    "scale": (0.45, 1.02),  # of the frame's width
    "x": (-1.0, 1.0),  # of the room left beside the flag
    "y": (-1.0, 1.0),
    "tilt": (-0.14, 0.14),
    "shear": (-0.1, 0.1),
    "far_x": (-0.16, 0.16),
    "far_y": (-0.1, 0.1),
    "wave": (0.0, 0.055),  # of the flag's width
    "waves": (0.7, 2.4),
    "lean": (-0.25, 0.25),
    "phase": (0.0, 1.0),
    "fold": (0.0, 0.32),
    "light_x": (-0.15, 0.15),
    "light_y": (-0.15, 0.15),
}


def photograph(drawing: Image.Image, rng: random.Random, size: tuple[int, int] = (320, 256)) -> Image.Image:
    """Returns an RGB photograph of `size` (width, height) of a drawn flag; `rng` is the only source of randomness."""
    width, height = size
    generator = torch.Generator().manual_seed(rng.getrandbits(62))
    flag = drawing.convert("RGB")
    ratio = torch.tensor([flag.width / flag.height])
    tall = min(flag.height, height * 3 // 2)
    flag = flag.resize((round(tall * flag.width / flag.height), tall), Image.Resampling.BOX)
    behind = background(rng, size).resize((2 * width, 2 * height), Image.Resampling.BILINEAR)
    poses = draw_poses(1, generator, ratio)
    scene = compose(to_pixels(flag)[None], to_pixels(behind)[None], poses, width / height)
    lit = light(scene, generator).clamp_(0, 1)[0].permute(1, 2, 0)
    image = Image.fromarray((lit * 255).round().to(torch.uint8).numpy()).reduce(2)
    return _camera(image, rng)


def to_pixels(image: Image.Image) -> torch.Tensor:
    """Returns an RGB image as uint8 [3, H, W]."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def draw_poses(count: int, generator: torch.Generator, ratios: torch.Tensor | None) -> Poses:
    """Draws a random pose for each flag, every value as [B, 1, 1].

    Args:
        count: Number of flags B.
        generator: Source of randomness.
        ratios: Width over height of each flag, float [B]; drawn between 1.4 and 2 by default.
    """
    draws = torch.rand(len(RANGES), count, 1, 1, generator=generator)
    poses = {name: low + (high - low) * draw for (name, (low, high)), draw in zip(RANGES.items(), draws, strict=True)}
    if ratios is not None:
        poses["ratio"] = ratios.reshape(-1, 1, 1).float()
    return poses


def compose(flags: torch.Tensor, backgrounds: torch.Tensor, pose: Poses, frame: float) -> torch.Tensor:
    """Composes flags onto backgrounds; returns float32 [B, 3, H, W] in 0..255, not yet lit.

    Args:
        flags: Drawings, uint8 [B, 3, h, w].
        backgrounds: uint8 [B, 3, H, W].
        pose: Poses from `draw_poses`.
        frame: Width over height of the photograph.
    """
    high, wide = backgrounds.shape[-2:]
    width = torch.minimum(frame * pose["scale"], 1.05 * pose["ratio"])
    height = width / pose["ratio"]
    y = (torch.arange(high).reshape(1, high, 1) + 0.5) / high - 0.5
    x = ((torch.arange(wide).reshape(1, 1, wide) + 0.5) / wide - 0.5) * frame
    x = x - pose["x"] * ((frame - width).abs() / 2 + 0.04)
    y = y - pose["y"] * ((1 - height).abs() / 2 + 0.04)
    cos, sin = torch.cos(pose["tilt"]), torch.sin(pose["tilt"])
    depth = ((1 + pose["far_x"] * x / width) + pose["far_y"] * y / height).reciprocal_()
    along = (cos / width * x + sin / width * y).mul_(depth)  # -.5 at the hoist, .5 at the fly
    down = ((cos / height) * y - (sin / height) * x).mul_(depth).addcmul_(pose["shear"], along)
    waves, lean, phase = (2 * math.pi * pose[name] for name in ("waves", "lean", "phase"))
    angle = torch.addcmul(phase, waves, along).addcmul_(lean, down)
    wave, fold = pose["wave"] * pose["ratio"], pose["fold"]
    down.addcmul_(torch.addcmul(0.65 * wave, 0.7 * wave, along), torch.sin(angle))  # waves grow to the fly
    shade = torch.addcmul(torch.ones(()), pose["light_x"], along).addcmul_(pose["light_y"], down)
    shade.addcmul_(torch.addcmul(0.65 * fold, 0.7 * fold, along), angle.cos_())
    inside = _inside(along, width * (wide / frame))
    alpha = torch.minimum(inside, _inside(down, height * high), out=inside).clamp_(0, 1).unsqueeze(1)
    grid = torch.stack((along, down), dim=-1).mul_(2)
    flag = functional.grid_sample(flags.float(), grid, padding_mode="border", align_corners=False)
    behind = backgrounds.float()
    return behind.lerp_(flag.mul_(shade.unsqueeze(1)), alpha)


def _inside(place: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """Returns the coverage of each pixel by [-.5, .5], for a side of `pixels` pixels, not clamped to 0..1."""
    return torch.addcmul(0.5 + 0.5 * pixels, place.abs(), -pixels)


def light(scene: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Varies brightness, contrast, saturation and color temperature in one linear map; returns values around 0..1."""
    count = len(scene)
    draws = torch.rand(6, count, generator=generator)
    gain, contrast, saturation = 0.6 + 0.75 * draws[0], 0.75 + 0.55 * draws[1], 0.7 + 0.7 * draws[2]
    warmth, tint = 0.24 * (draws[3] - 0.5), 0.16 * (draws[4] - 0.5)
    gray = torch.tensor([0.3, 0.59, 0.11]).expand(3, 3)
    mix = saturation.reshape(-1, 1, 1) * torch.eye(3) + (1 - saturation).reshape(-1, 1, 1) * gray
    casts = torch.stack((1 + warmth, 1 - tint, 1 - warmth), dim=1) * (gain * contrast / 255).unsqueeze(1)
    bias = (0.45 * (1 - contrast) * gain).reshape(-1, 1, 1).expand(count, 3, 1)
    return torch.baddbmm(bias, mix * casts.unsqueeze(2), scene.flatten(2)).reshape(scene.shape)


def _camera(image: Image.Image, rng: random.Random) -> Image.Image:
    """Adds camera artifacts: slight blur, sensor noise, JPEG compression."""
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.005 * image.height)))
    if rng.random() < 0.6:
        noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(2, 14), (image.height, image.width, 3))
        image = Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))
    file = BytesIO()
    image.save(file, "JPEG", quality=rng.randint(55, 95))
    return Image.open(file).convert("RGB")
