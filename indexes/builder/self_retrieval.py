"""Measures at build time, on a sample, whether an encoder can tell the main images of a knowledge base apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from indexes.store.layout import THUMBNAILS
from retriever.borders import trim
from retriever.images import encoded, load_image, prepare_image
from retriever.protocols import DualEncoder, SmallEncoder
from retriever.types import IntArray

SAMPLE = 100
"""Number of main images that are compared with each other."""
FEWEST = 20
"""With fewer distinct main images than this, the figures are meaningless."""
SPREAD = 0.3
"""Mean cosine of different main images above which a small encoder needs to be adapted.

Knowledge bases that the project generates have 0.07 to 0.17, logos 0.45, photographs 0.69.
"""
RECALL = 0.9
"""Share of slightly changed images that any encoder should find among `SAMPLE`."""
_BATCH = 32
_FIXES = (
    "use a general encoder (omgm build-index --profile laptop --overwrite) or adapt this one (omgm train-encoder), and "
    "measure the gain with omgm evaluate"
)


class SelfRetrieval(NamedTuple):
    """How well an encoder tells a sample of main images apart.

    Attributes:
        images: Number of distinct images compared.
        recall: Share of slightly changed images that are nearest to their originals.
        spread: Mean cosine of two different images: the higher, the more alike they all seem to the encoder.
        warning: What is wrong and how to fix it, or "".
    """

    images: int
    recall: float
    spread: float
    warning: str = ""


def measure_self_retrieval(
    folder: Path, rows: IntArray, encoder: DualEncoder, trim_borders: bool = False
) -> SelfRetrieval | None:
    """Compares a fixed sample of main images with slightly changed versions; returns `None` if there are too few.

    Args:
        folder: The index or its unfinished build, for the thumbnails.
        rows: The rows of entities with a main image.
        encoder: Step 1's model.
        trim_borders: Whether both are compared without uniform borders.
    """
    prepared: Callable[[Image.Image], Image.Image] = trim if trim_borders else prepare_image
    drawn = np.random.default_rng(0).permutation(rows)[: 2 * SAMPLE].tolist()
    contents = dict.fromkeys((folder / THUMBNAILS / f"{row}.jpg").read_bytes() for row in drawn)
    images = [load_image(content) for content in islice(contents, SAMPLE)]
    if len(images) < FEWEST:
        return None
    rng = random.Random(0)
    own = _encoded(encoder, map(prepared, images))
    changed = _encoded(encoder, [prepared(slightly_changed(image, rng)) for image in images])
    nearest = (changed @ own.T).argmax(dim=1)
    recall = float((nearest == torch.arange(len(own))).float().mean())
    pairs = own @ own.T
    spread = float((pairs.sum() - pairs.trace()) / (len(own) * (len(own) - 1)))
    is_unadapted = isinstance(encoder, SmallEncoder) and encoder.is_unadapted
    warning = _warning(recall, spread, len(images), is_unadapted)
    return SelfRetrieval(len(images), round(recall, 3), round(spread, 3), warning)


def slightly_changed(image: Image.Image, rng: random.Random) -> Image.Image:
    """Returns an RGB image cropped to at least 85 % per side, scaled, rotated by up to 10 degrees, as a JPEG."""
    kept = rng.uniform(0.85, 1)
    width, height = max(int(image.width * kept), 1), max(int(image.height * kept), 1)
    left, top = rng.randint(0, image.width - width), rng.randint(0, image.height - height)
    scale = rng.uniform(0.5, 1)
    size = max(int(width * scale), 8), max(int(height * scale), 8)
    image = image.resize(size, Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    image = image.rotate(rng.uniform(-10, 10), Image.Resampling.BICUBIC, expand=True, fillcolor=(255, 255, 255))
    return load_image(encoded(image, "JPEG", quality=rng.randint(50, 90)))


def _encoded(encoder: DualEncoder, images: Iterable[Image.Image]) -> torch.Tensor:
    left = iter(images)
    vectors = []
    while batch := list(islice(left, _BATCH)):
        vectors.append(encoder.encode_images(batch).float().cpu())
    return functional.normalize(torch.cat(vectors), dim=1)


def _warning(recall: float, spread: float, count: int, unadapted: bool) -> str:
    if recall < RECALL:
        found = f"{100 * recall:.0f} % of {count} slightly changed main images are nearest to their originals"
        return f"the encoder confuses the images: only {found}; {_FIXES}"
    if unadapted and spread > SPREAD:
        return (
            f"the images are far from what the encoder was trained on: the mean cosine of two main images is "
            f"{spread:.2f} (usually up to {SPREAD:g}), so photographs of them may be confused; {_FIXES}"
        )
    return ""
