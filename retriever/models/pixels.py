"""Converts images to tensors as each model's `preprocessor_config.json` specifies."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.nn import functional

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.image_cache import content_of
from retriever.images import prepare_image

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
CONFIG_NAME = "preprocessor_config.json"
_OWN_PROCESSOR = "CLIPImageProcessor"
_THREADS = 16
_FEW = 2**19
"""Pixels that are resized sooner than several threads are told to."""
_PREPARED = "omgm_prepared"
"""The attribute that holds an image's pixels as models want them."""
_REDUCING_GAP = 3.0
"""Images are first reduced by averaging to about this many times the target size, unless `exact` forbids it."""


@dataclass(frozen=True, slots=True)
class PixelPreparation:
    """Turns images into a model's input.

    Attributes:
        size: Height and width of the result in pixels.
        crop: False squashes the whole image into the square; True scales its shorter side and crops the middle, as CLIP
            does.
        mean: Per-channel mean to subtract, of values in 0..1.
        std: Per-channel standard deviation to divide by.
        exact: True resamples a squashed image in one pass, as published models were trained; False takes a shortcut on
            large images that is several times as fast and changes values by at most a few levels of 255. With `crop`,
            which only published models use, resampling is always exact.
        resample: Pillow's filter.
        target_ratio: Highest aspect ratio before cropping; a more elongated image gets black bars along its long sides,
            as in OMGM and EchoSight. Requires `crop`.
    """

    size: int
    crop: bool = False
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    exact: bool = False
    resample: Image.Resampling = Image.Resampling.BICUBIC
    target_ratio: float | None = None

    def resize(self, image: Image.Image) -> Image.Image:
        """Resizes an image to RGB of `size` x `size`."""
        image = prepare_image(image)
        if not self.crop:
            if not self.exact and self.resample == Image.Resampling.BICUBIC:
                return _squashed(image, self.size)
            gap = None if self.exact else _REDUCING_GAP
            return image.resize((self.size, self.size), self.resample, reducing_gap=gap)
        if self.target_ratio is not None:
            image = _padded(image, self.target_ratio)
        shorter = min(image.size)
        # Sides and offsets are rounded down, as transformers does.
        width, height = (int(self.size * side / shorter) for side in image.size)
        left, top = (width - self.size) // 2, (height - self.size) // 2
        if self.target_ratio is not None:  # torchvision rounds halves to even
            left, top = round((width - self.size) / 2), round((height - self.size) / 2)
        return image.resize((width, height), self.resample).crop((left, top, left + self.size, top + self.size))

    def to_uint8(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Resizes images, several in parallel, to uint8 [N, 3, size, size]."""
        return self._pixels(images).permute(0, 3, 1, 2).contiguous()

    def _pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Resizes images, several in parallel, to uint8 [N, size, size, 3]."""
        if not images:
            return torch.empty(0, self.size, self.size, 3, dtype=torch.uint8)
        many = len(images) > 1 and sum(image.width * image.height for image in images) > _FEW
        many = many and torch.get_num_threads() > 1  # limited to one, the other cores have work of their own
        # Pillow releases the GIL while it decodes and resizes.
        resized = _threads().map(self._array, images) if many else map(self._array, images)
        return torch.from_numpy(np.stack(list(resized)))

    def _array(self, image: Image.Image) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if content_of(image) is None:
            return np.asarray(self.resize(image))
        # Two models may want the same pixels of an image that does not change.
        kept = vars(image).setdefault(_PREPARED, {})
        how = replace(self, mean=CLIP_MEAN, std=CLIP_STD)
        if how not in kept:
            kept[how] = np.asarray(self.resize(image))
        pixels: np.ndarray[Any, np.dtype[np.uint8]] = kept[how]
        return pixels

    def normalize(self, pixels: torch.Tensor) -> torch.Tensor:
        """Shifts and scales float pixels in 0..1, [N, 3, H, W], per channel."""
        mean, std = _channels(self.mean, pixels.device), _channels(self.std, pixels.device)
        return (pixels - mean) / std

    def to_device(self, images: Sequence[Image.Image], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        """Returns the model's input, [N, 3, size, size], on `device`, to which pixels are copied as uint8.

        The device brings the channels to the front: PyTorch would wake all cores of the host for it, and its threads
        wait for more work at full speed while the next images are resized.
        """
        pixels = to_device(self._pixels(images), device).permute(0, 3, 1, 2).contiguous()
        return self.normalize(pixels.float() / 255).to(dtype)

    def __call__(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the model's input, float32 [N, 3, size, size]."""
        return self.to_device(images, torch.device("cpu"), torch.float32)

    @classmethod
    def load(cls, folder: Path) -> PixelPreparation:
        """Reads `preprocessor_config.json` in `folder`, as transformers writes it for CLIP and SigLIP.

        Raises:
            ValueError: The file is missing, or its sizes do not describe one square.
        """
        path = folder / CONFIG_NAME
        if not path.is_file():
            raise ValueError(f"{path}: not found; a model folder needs its {CONFIG_NAME}")
        config = read_object(path)
        crop = bool(config.get("do_center_crop", False))
        sides = _sides(config.get("size"), crop) | (_sides(config.get("crop_size"), False) if crop else set())
        if len(sides) != 1:
            raise ValueError(
                f"{path}: size, crop_size: expected one number of pixels for all sides, got {sides or None}"
            )
        return cls(
            sides.pop(),
            crop,
            tuple(config.get("image_mean", CLIP_MEAN)),
            tuple(config.get("image_std", CLIP_STD)),
            # This project's own models squash under CLIP's processor name; published models that squash have another.
            config.get("image_processor_type") != _OWN_PROCESSOR,
            Image.Resampling(config.get("resample", Image.Resampling.BICUBIC)),
            config.get("target_ratio"),
        )

    def save(self, folder: Path) -> None:
        """Writes `preprocessor_config.json`, which transformers' image processors can read as well."""
        config = {
            "image_processor_type": "SiglipImageProcessor" if self.exact and not self.crop else _OWN_PROCESSOR,
            "do_resize": True,
            "size": {"shortest_edge": self.size} if self.crop else {"height": self.size, "width": self.size},
            "do_center_crop": self.crop,
            "crop_size": {"height": self.size, "width": self.size},
            "image_mean": list(self.mean),
            "image_std": list(self.std),
            "resample": int(self.resample),
            **({} if self.target_ratio is None else {"target_ratio": self.target_ratio}),
        }
        (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _squashed(image: Image.Image, size: int) -> Image.Image:
    """Resizes an RGB image to `size` x `size`, ignoring its aspect ratio, as Pillow does with `reducing_gap`."""
    width, height = (max(int(side / size / _REDUCING_GAP), 1) for side in image.size)
    if image.width % width or image.height % height:
        return image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=_REDUCING_GAP)
    if max(width, height) > 1:
        image = image.reduce((width, height))
    # PyTorch computes the same as Pillow with vector instructions, in a quarter of the time.
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]
    resized = functional.interpolate(pixels, (size, size), mode="bicubic", antialias=True)
    return Image.fromarray(resized[0].permute(1, 2, 0).numpy())


def _padded(image: Image.Image, ratio: float) -> Image.Image:
    """Adds black bars along the long sides until the longer side is `ratio` times the shorter."""
    longer = max(image.size)
    if longer / min(image.size) < ratio:
        return image
    across, down = (max(int((longer / ratio - side) / 2), 0) for side in image.size)
    return ImageOps.expand(image, (across, down))


def _sides(size: object, crop: bool) -> set[int]:
    """Returns the side lengths in a size: a number, or a mapping with `height` and `width` or `shortest_edge`."""
    if isinstance(size, dict):
        size = {side: size[side] for side in (("shortest_edge",) if crop else ("height", "width")) if side in size}
        return {side for side in size.values() if isinstance(side, int)}
    return {size} if isinstance(size, int) else set()


@functools.cache
def _channels(values: tuple[float, float, float], device: torch.device) -> torch.Tensor:
    """Returns three values as [1, 3, 1, 1], cached because copying them to a GPU for each batch would stall it."""
    with torch.inference_mode(False):  # training may use the tensor that inference cached
        return torch.tensor(values, device=device).view(1, 3, 1, 1)  # waits, since other streams may read it next


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1), "images")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child process does not inherit threads
