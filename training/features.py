"""A frozen image tower's features of the pictures that a training shows, as many of them kept as memory allows."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from PIL import Image, ImageEnhance
from torch import Tensor
from tqdm import tqdm

from retriever.models.qformer import QFormerFusion
from training.images import Load

logger = logging.getLogger(__name__)

VIEWS = {"query": 4, "main": 2}
"""How many views of a picture there are, by its kind; the first is the picture as it is."""


class Shown(NamedTuple):
    """Names a picture: a question's by its id, an entity's main image by the entity's id."""

    kind: Literal["query", "main"]
    id: str


class Features:
    """Features of pictures by what is shown: computed when first asked for, the longest unused ones dropped.

    What is dropped is computed again to the same values, for nothing but the picture and the seed matters.

    Args:
        fusion: Whose image tower is asked; it must be in eval mode whenever it is.
        pictures: Reads each of them.
        seed: Of the augmented views.
        limit: Most bytes kept.
    """

    def __init__(self, fusion: QFormerFusion, pictures: Mapping[Shown, Load], seed: int, limit: int):
        self.fusion = fusion
        self.pictures = pictures
        self.seed = seed
        self.limit = limit
        self.bytes = 0
        self._kept: dict[Shown, Tensor] = {}  # in the order of last use

    def __getitem__(self, key: Shown) -> Tensor:
        """Returns a picture's features, bfloat16 [views, cells, width] on the CPU.

        Raises:
            ValueError: The picture cannot be read.
        """
        features = self._kept.pop(key, None)
        if features is None:
            features = self._compute(key)
            self.bytes += features.nbytes
        self._kept[key] = features
        while self.bytes > self.limit and len(self._kept) > 1:
            self.bytes -= self._kept.pop(next(iter(self._kept))).nbytes
        return features

    def fill(self, progress: bool) -> None:
        """Computes as many as are kept; the log says how many that is where it is not all."""
        bar = tqdm(self.pictures, desc="features", unit="picture", disable=not progress)
        for count, key in enumerate(bar, 1):
            largest = self[key].nbytes // VIEWS[key.kind] * max(VIEWS.values())
            if self.bytes + largest > self.limit and count < len(self.pictures):
                logger.warning(
                    "features of %d of %d pictures are kept, %.1f GiB; the others are computed whenever they are shown",
                    count,
                    len(self.pictures),
                    self.limit / 2**30,
                )
                break
        bar.close()

    @torch.inference_mode()
    def _compute(self, key: Shown) -> Tensor:
        image = self.pictures[key]()
        # Larger ones only cost time: every view is brought to the tower's size anyway.
        image.thumbnail((4 * self.fusion.pixels.size, 4 * self.fusion.pixels.size), reducing_gap=2.0)
        rng = random.Random(f"{self.seed}:{key.id}")
        pixels = self.fusion.pixels([image, *(augment(image, rng) for _ in range(VIEWS[key.kind] - 1))])
        device = self.fusion.query_tokens.device
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return self.fusion.vision_features(pixels.to(device)).bfloat16().cpu().clone()


def augment(image: Image.Image, rng: random.Random) -> Image.Image:
    """Returns a part of the picture (70 to 100% of its area) with brightness and contrast changed a little."""
    area, ratio = rng.uniform(0.7, 1.0), math.exp(rng.uniform(-0.15, 0.15))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    box = [left * image.width, top * image.height, (left + width) * image.width, (top + height) * image.height]
    image = image.crop((int(box[0]), int(box[1]), math.ceil(box[2]), math.ceil(box[3])))
    image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.75, 1.25))
    return ImageEnhance.Contrast(image).enhance(rng.uniform(0.75, 1.25))
