"""Images to train on: where main images are found, and how images are held in memory at training size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from PIL import Image
from torch import Tensor

from indexes.formats import guess_format
from indexes.progress import progress_bar
from indexes.sources import ImageSource, find_main, open_images
from retriever.models.pixels import PixelPreparation
from retriever.types import Entity

Key = TypeVar("Key")
ImageLoader = Callable[[], Image.Image]
"""Loads an image; raises a `ValueError` that names the file if it cannot be read."""


def image_source(images: Path | None, kb: Path, kb_format: str | None) -> ImageSource:
    """Returns the images of a knowledge base.

    Raises:
        ValueError: It has none of its own, and no folder is given.
    """
    source = open_images(images, kb, kb_format or guess_format(kb))
    if source is None:
        raise ValueError(f"--images: name the folder with the images; {kb} itself has none")
    return source


def main_images(
    images: Path | None, kb: Path, kb_format: str | None, entities: Mapping[Key, Entity]
) -> dict[Key, ImageLoader]:
    """Returns the main images that exist, found as an index of the knowledge base finds them.

    Args:
        images: A folder or a ZIM file; `None` if the knowledge base holds its own images.
        kb: The knowledge base.
        kb_format: See `indexes.formats`; guessed when `None`.
        entities: The entities whose images are wanted.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file, or no image was found.
    """
    source = image_source(images, kb, kb_format)
    named = {key: find_main(source, entity) for key, entity in entities.items()}
    loaders: dict[Key, ImageLoader] = {
        key: partial(source.load, name) for key, name in named.items() if name is not None
    }
    if not loaders:
        raise ValueError(f"{images or kb}: holds none of the main images that {kb} names")
    return loaders


def load_images(loaders: Sequence[ImageLoader], side: int, progress: bool = True) -> Tensor:
    """Loads images and resizes them to a square, ignoring their proportions; returns uint8 [N, 3, side, side].

    Raises:
        ValueError: A file is not an image; the message names it.
    """
    preparation = PixelPreparation(side)
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda load: preparation.to_uint8([load()]), loaders)
        bar = progress_bar(parts, total=len(loaders), desc="loading images", unit="image", shown=progress)
        loaded = list(bar)
    return torch.cat(loaded) if loaded else preparation.to_uint8([])
