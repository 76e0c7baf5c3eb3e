"""A second network for step 1's images that reads no texts: DINOv2 or DINOv3, joined with a CLIP-type encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.images import prepare_image
from retriever.models.folder import folder_fingerprint
from retriever.models.graphs import Forward, graphed
from retriever.models.pixels import CONFIG_NAME, PixelPreparation
from retriever.models.pretrained import load_pretrained

KINDS = ("dinov2", "dinov2_with_registers", "dinov3_vit", "dinov3_convnext")
"""Values of `model_type` whose `pooler_output` is the vector of an image."""


@dataclass(frozen=True, slots=True)
class MiddlePixels(PixelPreparation):
    """Crops the middle of an image whose shorter side is first scaled to `shorter` pixels, as DINOv2 does."""

    shorter: int = 256

    def resize(self, image: Image.Image) -> Image.Image:
        """Resizes an image to RGB of `size` x `size`."""
        image = prepare_image(image)
        width, height = (int(self.shorter * side / min(image.size)) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        return image.resize((width, height), self.resample).crop((left, top, left + self.size, top + self.size))


@dataclass(frozen=True, slots=True)
class UnroundedPixels(PixelPreparation):
    """Squashes images without rounding to levels of 255, as DINOv3 does."""

    def to_device(self, images: Sequence[Image.Image], device: torch.device, dtype: torch.dtype) -> Tensor:
        """Returns the model's input, [N, 3, size, size], on `device`."""
        mode = Image.Resampling(self.resample).name.lower()
        resized = [torch.empty(0, 3, self.size, self.size, device=device)]
        for image in images:
            pixels = to_device(torch.from_numpy(np.array(prepare_image(image))), device).permute(2, 0, 1)[None]
            resized.append(functional.interpolate(pixels.float() / 255, (self.size,) * 2, mode=mode, antialias=True))
        return self.normalize(torch.cat(resized)).to(dtype)


class ImageTower:
    """Appends what a network sees to the vectors of a `ClipEncoder`, as its `photos`.

    Args:
        model: A model of transformers with a `pooler_output`.
        pixels: Prepares its images.
        share: Its share of the similarity of two images, 0 to 1.
        fingerprint: Hash of its folder.
    """

    def __init__(self, model: Any, pixels: PixelPreparation, share: float, fingerprint: str) -> None:
        self.model, self.pixels, self.share = model.eval(), pixels, share
        self.fingerprint = tower_fingerprint(fingerprint, share)
        self.dimension: int = getattr(model.config, "hidden_size", None) or model.config.hidden_sizes[-1]
        self._vectors: Forward = lambda given: functional.normalize(model(given).pooler_output.float(), dim=-1)

    @classmethod
    def load(
        cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32, share: float = 0.5
    ) -> ImageTower:
        """Loads the network in a folder.

        Raises:
            ValueError: A file is missing, the weights do not match, or it is another kind of model.
        """
        from transformers import AutoModel  # only for profiles that name one

        path = folder / "config.json"
        kind = read_object(path).get("model_type") if path.is_file() else None
        if kind not in KINDS:
            raise ValueError(f"{path}: model_type: must be one of {', '.join(KINDS)}, got {kind!r}")
        pixels = _pixels(folder)
        model = load_pretrained(AutoModel, folder, dtype)
        return cls(model.to(device), pixels, share, folder_fingerprint(folder))

    @torch.inference_mode()
    def with_images(self, vectors: Tensor, images: Sequence[Image.Image]) -> Tensor:
        """Returns L2-normalized vectors [N, D + dimension] whose cosine is a weighted mean of both parts' cosines.

        Args:
            vectors: L2-normalized vectors of the images, float32 [N, D].
            images: The images.
        """
        seen = self._vectors(self.pixels.to_device(images, self.model.device, self.model.dtype))
        return torch.cat([(1 - self.share) ** 0.5 * vectors, self.share**0.5 * seen], dim=-1)

    def without_images(self, vectors: Tensor) -> Tensor:
        """Returns vectors of texts [N, D] with zeros appended: the network reads no texts."""
        return functional.pad(vectors, (0, self.dimension))

    def use_cuda_graphs(self) -> None:
        """Runs the network as CUDA graphs, captured at the first batch of each size."""
        self._vectors = graphed(self._vectors)


def tower_fingerprint(folder: str, share: float) -> str:
    """Returns the suffix by which a joined network changes its encoder's fingerprint."""
    return f"+{folder}*{share:g}"


def _pixels(folder: Path) -> PixelPreparation:
    """Reads `preprocessor_config.json`; raises ValueError if it is missing or describes no square."""
    path = folder / CONFIG_NAME
    config = read_object(path) if path.is_file() else {}
    size, crop = config.get("size") or {}, config.get("crop_size") or {}
    if not config.get("do_center_crop") or crop.get("height") != crop.get("width") or "shortest_edge" not in size:
        pixels = PixelPreparation.load(folder)
        if str(config.get("image_processor_type")).startswith("DINOv3"):
            return UnroundedPixels(pixels.size, mean=pixels.mean, std=pixels.std, resample=pixels.resample)
        return pixels
    resample = Image.Resampling(config.get("resample", Image.Resampling.BICUBIC))
    mean, std = (tuple(config[name]) for name in ("image_mean", "image_std"))
    return MiddlePixels(crop["height"], True, mean, std, True, resample, shorter=size["shortest_edge"])
