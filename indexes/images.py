"""Pictures of a knowledge base: where they lie, and how they become RGB."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image, ImageOps


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`.

    For `https://host/images/flag/fr.jpg` these are tried: `images/flag/fr.jpg`, `flag/fr.jpg`, `fr.jpg`; each as it
    is written and then percent-decoded. A file outside the folder is never returned, be it by `..` or by a link.
    """
    root = os.path.realpath(folder)
    for suffix in _suffixes(url):
        path = os.path.join(root, suffix)
        if os.path.isfile(path) and os.path.realpath(path).startswith(os.path.join(root, "")):
            return folder / suffix
    return None


def load_image(path: Path) -> Image.Image:
    """Returns a picture in RGB: turned as its EXIF data say, transparency on white, 16-bit gray scaled to 8.

    Raises:
        ValueError: The file is no picture, is damaged, or is larger than Pillow's limit. The message names the file.
    """
    try:
        with Image.open(path) as image:
            return _to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # a damaged file makes Pillow's decoders raise nearly anything
        raise ValueError(f"{path}: not a readable picture ({type(error).__name__}: {error})") from error


def thumbnail(image: Image.Image, side: int = 320) -> bytes:
    """Returns an RGB picture as a small JPEG without metadata; one picture always gives the same bytes."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    Image.frombytes("RGB", small.size, small.tobytes()).save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def _suffixes(url: str) -> Iterator[str]:
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


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):  # Pillow's own conversion would clip at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")
