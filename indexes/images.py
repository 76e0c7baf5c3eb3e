"""Images of a knowledge base: finds the file for a URL and makes thumbnails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image

from retriever.images import encoded

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif", ".jxl"),
    ".svg",
)
"""Image file extensions, in lower case."""
FETCHABLE = "omgm images fetch downloads those on the web"
"""What to do about missing images that are named by URLs."""


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`.

    For `https://host/images/flag/fr.jpg` it tries `images/flag/fr.jpg`, `flag/fr.jpg` and `fr.jpg`, each as written and
    then percent-decoded. It never returns a file outside the folder, whether through `..` or a link.
    """
    root = os.path.realpath(folder)
    for suffix in names_of(url):
        path = os.path.join(root, suffix)
        if os.path.isfile(path) and os.path.realpath(path).startswith(os.path.join(root, "")):
            return folder / suffix
    return None


def thumbnail(image: Image.Image, side: int = 320, quality: int = 88) -> bytes:
    """Encodes an RGB image as a small JPEG without metadata; the same image always gives the same bytes."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encoded(Image.frombytes("RGB", small.size, small.tobytes()), "JPEG", quality=quality)


def names_of(url: str) -> Iterator[str]:
    """Yields the paths under a folder that the image at a URL may have, in the order in which `find_image` tries them.

    If the path does not name an image, the query is part of the name, as in `images.php?id=7`, because the site's other
    images have the same path.
    """
    try:
        split = urlsplit(url)
    except ValueError:  # brackets that are not an IPv6 address
        return
    parts = [part for part in split.path.split("/") if part]
    if parts and split.netloc and split.query and not parts[-1].lower().endswith(IMAGE_SUFFIXES):
        parts[-1] += "?" + split.query.replace("/", "%2F")
    for start in range(len(parts)):
        written = parts[start:]
        decoded = [unquote(part) for part in written]
        for names in [written] if written == decoded else [written, decoded]:
            if all(map(_is_name, names)):
                yield "/".join(names)


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and not any(character in part for character in "/\\\0")
