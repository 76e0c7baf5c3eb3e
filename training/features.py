"""Image features of a frozen image tower, with as many of them cached as memory allows."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from indexes.progress import progress_bar
from retriever.models.qformer import QFormerFusion
from training.images import ImageLoader

logger = logging.getLogger(__name__)

VIEWS = {"query": 4, "main": 2}
"""Views per image, by its kind; the first is the image as it is, the others are augmented."""


class ImageKey(NamedTuple):
    """Names an image: a question's by its own id, an entity's main image by the entity's id."""

    kind: Literal["query", "main"]
    id: str


class Features:
    """A cache of image features: computed at the first use; the least recently used are dropped.

    Dropped features are computed again to the same values, since they depend on the image and the seed alone.

    Args:
        fusion: The encoder whose image tower is used; it must be in eval mode at every use.
        images: Loads each image.
        seed: Seed of the augmented views.
        limit: Size of the cache in bytes.
    """

    def __init__(self, fusion: QFormerFusion, images: Mapping[ImageKey, ImageLoader], seed: int, limit: int):
        self.fusion = fusion
        self.images = images
        self.seed = seed
        self.limit = limit
        self.bytes = 0
        self._cached: dict[ImageKey, Tensor] = {}  # in the order of last use

    def __getitem__(self, key: ImageKey) -> Tensor:
        """Returns an image's features, bfloat16 [views, cells, width] on the CPU.

        Raises:
            ValueError: The image cannot be read.
        """
        features = self._cached.pop(key, None)
        if features is None:
            features = self._compute(key)
            self.bytes += features.nbytes
        self._cached[key] = features
        while self.bytes > self.limit and len(self._cached) > 1:
            self.bytes -= self._cached.pop(next(iter(self._cached))).nbytes
        return features

    def fill(self, progress: bool) -> None:
        """Fills the cache; logs how many images fit if not all do."""
        bar = progress_bar(self.images, desc="features", unit="image", shown=progress)
        for count, key in enumerate(bar, 1):
            largest = self[key].nbytes // VIEWS[key.kind] * max(VIEWS.values())
            if self.bytes + largest > self.limit and count < len(self.images):
                logger.warning(
                    "features of %d of %d images fit into %.1f GiB; the others are computed at every use",
                    count,
                    len(self.images),
                    self.limit / 2**30,
                )
                break
        bar.close()

    @torch.inference_mode()
    def _compute(self, key: ImageKey) -> Tensor:
        image = self.images[key]()
        # Every view is resized to the tower's input: more pixels would only cost time.
        image.thumbnail((4 * self.fusion.pixels.size, 4 * self.fusion.pixels.size), reducing_gap=2.0)
        rng = random.Random(f"{self.seed}:{key.id}")
        pixels = self.fusion.pixels([image, *(augment(image, rng) for _ in range(VIEWS[key.kind] - 1))])
        device = self.fusion.query_tokens.device
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return self.fusion.vision_features(pixels.to(device)).bfloat16().cpu().clone()


def augment(image: Image.Image, rng: random.Random) -> Image.Image:
    """Returns a random crop (70 to 100 % of the area) with brightness and contrast changed a little."""
    area, ratio = rng.uniform(0.7, 1.0), math.exp(rng.uniform(-0.15, 0.15))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    box = [left * image.width, top * image.height, (left + width) * image.width, (top + height) * image.height]
    image = image.crop((int(box[0]), int(box[1]), math.ceil(box[2]), math.ceil(box[3])))
    image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.75, 1.25))
    return ImageEnhance.Contrast(image).enhance(rng.uniform(0.75, 1.25))
