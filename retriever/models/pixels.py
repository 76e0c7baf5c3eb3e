"""Pictures to tensors, as each model's `preprocessor_config.json` asks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
CONFIG_NAME = "preprocessor_config.json"


@dataclass(frozen=True, slots=True)
class PixelPreparation:
    """How a picture becomes a model's input.

    Attributes:
        size: Height and width of the result in pixels.
        crop: False squashes the picture into the square and so keeps all of it; True scales its shorter side and cuts
            the middle, as CLIP does.
        mean: Per-channel mean to subtract, of values in 0..1.
        std: Per-channel deviation to divide by.
    """

    size: int
    crop: bool = False
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD

    def resize(self, image: Image.Image) -> Image.Image:
        """Returns the picture as RGB at `size` x `size`, resampled bicubically."""
        image = image.convert("RGB")
        if not self.crop:
            return image.resize((self.size, self.size), Image.Resampling.BICUBIC, reducing_gap=3.0)
        scale = self.size / min(image.size)
        width, height = (max(self.size, round(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=3.0)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        return image.crop((left, top, left + self.size, top + self.size))

    def to_uint8(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns pictures at the model's size, uint8 [N, 3, size, size]."""
        if not images:
            return torch.empty(0, 3, self.size, self.size, dtype=torch.uint8)
        arrays = [np.asarray(self.resize(image)) for image in images]
        return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()

    def normalize(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns float pixels in 0..1, [N, 3, H, W], shifted and scaled per channel."""
        mean = torch.tensor(self.mean, device=pixels.device).view(1, 3, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(1, 3, 1, 1)
        return (pixels - mean) / std

    def __call__(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the model's input, float32 [N, 3, size, size]."""
        return self.normalize(self.to_uint8(images).float() / 255)

    @classmethod
    def load(cls, folder: Path) -> PixelPreparation:
        """Returns what `preprocessor_config.json` in `folder` says, as transformers writes it for CLIP and SigLIP.

        Raises:
            ValueError: The file is missing or has no usable size.
        """
        path = folder / CONFIG_NAME
        if not path.is_file():
            raise ValueError(f"{path}: not found; a model folder needs its {CONFIG_NAME}")
        config = json.loads(path.read_text(encoding="utf-8"))
        size = config.get("crop_size") if config.get("do_center_crop") else config.get("size")
        if isinstance(size, dict):
            size = size.get("height") or size.get("shortest_edge")
        if not isinstance(size, int):
            raise ValueError(f"{path}: size: expected a number of pixels, got {size!r}")
        mean = tuple(config.get("image_mean", CLIP_MEAN))
        std = tuple(config.get("image_std", CLIP_STD))
        return cls(size, bool(config.get("do_center_crop", False)), mean, std)

    def save(self, folder: Path) -> None:
        """Writes `preprocessor_config.json`, which transformers' CLIP image processor reads too."""
        config = {
            "image_processor_type": "CLIPImageProcessor",
            "do_resize": True,
            "size": {"shortest_edge": self.size} if self.crop else {"height": self.size, "width": self.size},
            "do_center_crop": self.crop,
            "crop_size": {"height": self.size, "width": self.size},
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }
        (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
