"""Where the images of entities come from: what a build asks of a source, and which image is the main one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from PIL import Image

from retriever.images import encoded
from retriever.types import Entity


class ImageSource(Protocol):
    """Finds images by their URLs and reads them; thread-safe."""

    def find(self, url: str) -> str | None:
        """Returns the name of the image at a URL or path, or `None` if there is none."""

    def why_missing(self, url: str) -> str:
        """Returns the reason why `find` returns nothing, for the report of a build; examples follow a colon."""

    def content(self, name: str) -> Path | bytes:
        """Returns the file of an image that `find` named, or its bytes if it has no file; none if it is damaged."""

    def load(self, name: str) -> Image.Image:
        """Returns an image that `find` named, in RGB.

        Raises:
            ImageError: The image is unreadable.
        """


def find_main(source: ImageSource, entity: Entity) -> str | None:
    """Returns the name of an entity's main image: `Entity.image`, else the first of `Entity.images` that is found."""
    return next((name for url in main_candidates(entity) if (name := source.find(url)) is not None), None)


def why_missing(source: ImageSource, entity: Entity) -> str:
    """Returns the reason why the first image that an entity names is not found."""
    return source.why_missing(next(iter(main_candidates(entity))))


def main_candidates(entity: Entity) -> Iterable[str]:
    """Returns the possible URLs of an entity's main image, in order of preference, without duplicates."""
    first = () if entity.image is None else (entity.image,)
    return dict.fromkeys((*first, *(image.url for image in entity.images)))


def advice_on(missing: Iterable[str]) -> str:
    """Returns the advice to download missing images; "" if none of them is on the web."""
    is_remote = any(re.match(r"(?:https?:)?//", image, re.IGNORECASE) for image in missing)
    return "; omgm kb images downloads those on the web" if is_remote else ""


def thumbnail(image: Image.Image, side: int = 320, quality: int = 88) -> bytes:
    """Encodes an RGB image as a small JPEG without metadata; the same image always gives the same bytes."""
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encoded(Image.frombytes("RGB", small.size, small.tobytes()), "JPEG", quality=quality)
