"""Pictures of a knowledge base: where they lie, and how they become RGB."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image, ImageOps


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`.

    For `https://host/images/flag/fr.jpg` these are tried: `images/flag/fr.jpg`, `flag/fr.jpg`, `fr.jpg`; each as it
    is written and then percent-decoded. A file outside the folder is never returned, be it by `..` or by a link.
    """
    root = os.path.realpath(folder)
    for suffix in names_of(url):
        path = os.path.join(root, suffix)
        if os.path.isfile(path) and os.path.realpath(path).startswith(os.path.join(root, "")):
            return folder / suffix
    return None


def load_image(file: Path | IO[bytes], name: str | None = None) -> Image.Image:
    """Returns a picture in RGB: turned as its EXIF data say, transparency on white, 16-bit gray scaled to 8.

    Args:
        file: Its path, or its bytes as a stream.
        name: What an error calls it; by default its path.

    Raises:
        ValueError: The file is no picture, is damaged, or is larger than Pillow's limit. The message names the file.
    """
    try:
        with Image.open(file) as image:
            return to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # a damaged file makes Pillow's decoders raise nearly anything
        raise ValueError(f"{name or file}: not a readable picture ({type(error).__name__}: {error})") from error


def thumbnail(image: Image.Image, side: int = 320, quality: int = 88) -> bytes:
    """Returns an RGB picture as a small JPEG without metadata; one picture always gives the same bytes."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    Image.frombytes("RGB", small.size, small.tobytes()).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def names_of(url: str) -> Iterator[str]:
    """Yields where under a folder the picture of a URL may lie, in the order in which `find_image` looks."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets that are no IPv6 address
        return
    parts = [part for part in path.split("/") if part]
    for start in range(len(parts)):
        written = parts[start:]
        decoded = [unquote(part) for part in written]
        for names in [written] if written == decoded else [written, decoded]:
            if all(map(_is_name, names)):
                yield "/".join(names)


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and not any(character in part for character in "/\\\0")


def to_rgb(image: Image.Image) -> Image.Image:
    """Returns a picture in RGB: transparency on white, 16-bit gray scaled to 8."""
    if image.mode.startswith("I;16"):  # Pillow's own conversion would clip at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")
