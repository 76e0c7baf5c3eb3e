"""Pictures held in memory at training size."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from indexes.images import load_image
from retriever.models.pixels import PixelPreparation


def load_pictures(paths: Sequence[Path], side: int, progress: bool = True) -> Tensor:
    """Returns pictures squashed to a square, uint8 [N, 3, side, side].

    Raises:
        ValueError: A file is not a picture; the message names it.
    """
    preparation = PixelPreparation(side)
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda path: preparation.to_uint8([load_image(path)]), paths)
        bar = tqdm(parts, total=len(paths), desc="load pictures", unit="picture", disable=not progress)
        loaded = list(bar)
    return torch.cat(loaded) if loaded else preparation.to_uint8([])
