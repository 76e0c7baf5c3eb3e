"""The pictures that a training reads: where they are, and how they are held in memory at training size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from indexes.formats import guess_format
from indexes.sources import find_main, open_images
from retriever.models.pixels import PixelPreparation
from retriever.types import Entity

Key = TypeVar("Key")
Load = Callable[[], Image.Image]
"""Reads a picture; raises a `ValueError` that names it where it is none."""


def main_images(
    images: Path | None, kb: Path, kb_format: str | None, entities: Mapping[Key, Entity]
) -> dict[Key, Load]:
    """Returns the main images that are there, as an index of the knowledge base has them.

    Args:
        images: A folder or a ZIM file. `None`: what the knowledge base itself holds.
        kb: The knowledge base.
        kb_format: See `indexes.formats`; guessed when `None`.
        entities: Whose.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file, or there is no picture at all.
    """
    source = open_images(images, kb, kb_format or guess_format(kb))
    if source is None:
        raise ValueError(f"--images: name the folder with the pictures; {kb} itself has none")
    named = {key: find_main(source, entity) for key, entity in entities.items() if entity.image is not None}
    found: dict[Key, Load] = {key: partial(source.load, name) for key, name in named.items() if name is not None}
    if not found:
        raise ValueError(f"{images or kb}: holds none of the main images that {kb} names")
    return found


def load_pictures(loads: Sequence[Load], side: int, progress: bool = True) -> Tensor:
    """Returns pictures squashed to a square, uint8 [N, 3, side, side].

    Raises:
        ValueError: A file is not a picture; the message names it.
    """
    preparation = PixelPreparation(side)
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda load: preparation.to_uint8([load()]), loads)
        bar = tqdm(parts, total=len(loads), desc="load pictures", unit="picture", disable=not progress)
        loaded = list(bar)
    return torch.cat(loaded) if loaded else preparation.to_uint8([])
