"""Images of a knowledge base: finds the file for a URL and makes thumbnails."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from indexes.knowledge.image_files import ImageFiles
from retriever.images import encoded

_FETCHABLE = "omgm kb images downloads those on the web"
"""What to do about missing images that are named by URLs."""


def advice_on(missing: Iterable[str]) -> str:
    """Returns the advice to download missing images; "" if none of them is on the web."""
    return f"; {_FETCHABLE}" if any(re.match(r"(?:https?:)?//", image, re.IGNORECASE) for image in missing) else ""


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`; see `ImageFiles.find`."""
    name = ImageFiles(folder, listed=False).find(url).name
    return None if name is None else folder / name


def thumbnail(image: Image.Image, side: int = 320, quality: int = 88) -> bytes:
    """Encodes an RGB image as a small JPEG without metadata; the same image always gives the same bytes."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encoded(Image.frombytes("RGB", small.size, small.tobytes()), "JPEG", quality=quality)
