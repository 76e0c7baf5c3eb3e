"""The images that the Python door takes: paths, bytes, PIL images and arrays, all prepared alike."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from indexes.images import load_image, to_rgb

ImageInput = str | Path | bytes | Image.Image | NDArray[np.uint8]
"""A path, the bytes of a file, a PIL image, or an array [H, W] or [H, W, 3 or 4] of uint8."""


def read_image(image: ImageInput) -> Image.Image:
    """Returns an image in RGB: turned as its EXIF data say, transparency on white.

    Raises:
        ValueError: It is unreadable, a URL, or an array of another shape or type.
        TypeError: It is none of what `ImageInput` lists.
    """
    if isinstance(image, Image.Image):
        return to_rgb(ImageOps.exif_transpose(image))
    if isinstance(image, bytes):
        return load_image(io.BytesIO(image), "image")
    if isinstance(image, np.ndarray):
        return to_rgb(_from_array(image))
    if not isinstance(image, str | Path):
        raise TypeError(f"image must be a path, bytes, a PIL image or an array, got {type(image).__name__}")
    if str(image).startswith(("http://", "https://")):
        raise ValueError(f"image: {image} is a URL; download it first and pass its bytes")
    return load_image(Path(image).expanduser())


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.dtype != np.uint8:
        raise ValueError(f"image: an array must hold uint8 from 0 to 255, got {array.dtype}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if 0 in array.shape or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise ValueError(f"image: an array must have the shape [H, W] or [H, W, 3 or 4], got {list(array.shape)}")
    return Image.fromarray(np.ascontiguousarray(array))
