"""A made-up knowledge base of any size, and models that cost little, to measure everything but the models."""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from retriever.types import Entity, FloatArray, IntArray

WORDS: list[str] = """
the of and a in to was is for as by on with that it from at his an were are which this be has also had not first its or
but their one after they been two who most new all into during other may city river species mountain church built
century large small north south east west world war found used known about between under over state national flower
leaf tree plant bird island lake temple bridge castle museum tower garden forest height year
""".split()  # noqa: SIM905
"""Each is one token of `benchmarks.full_size.tokenizer`."""
MEDIAN_WORDS, SIGMA = 156, 0.8
"""Of a section, as in E-VQA: 120 English words in BERT's word pieces. The mean is 215; lengths are log-normal."""
_PER_CLUSTER, _PER_GROUP = 50, 20


def articles(entities: int) -> Iterator[dict[str, Any]]:
    """Yields articles of 2 to 7 sections (4.5 on average) as JSON lines have them, always the same ones."""
    for number in range(entities):
        chance = random.Random(number)
        lengths = [int(chance.lognormvariate(math.log(MEDIAN_WORDS), SIGMA)) for _ in range(chance.randint(2, 7))]
        texts = [" ".join(chance.choices(WORDS, k=max(5, length))) for length in lengths]
        yield {
            "id": f"e{number}",
            "title": f"Entity {number} {chance.choice(WORDS)}",
            "images": [{"url": f"{number}.jpg"}],
            "sections": [{"title": f"Section {n}", "text": text} for n, text in enumerate(texts)],
        }


def write_images(folder: Path, names: Sequence[str], side: int, drawn: int) -> None:
    """Writes JPEGs of noise over a gradient, of which only the first ones are drawn; all others are links to them."""
    folder.mkdir(parents=True)
    draw, width, height = np.random.default_rng(len(names)), side, side * 3 // 4
    for number, name in enumerate(names):
        if number >= drawn:  # a link takes no disk space, and is decoded as a separate file
            (folder / name).hardlink_to(folder / names[number % drawn])
            continue
        ramp = np.linspace(0, 1, width)[None, :, None] * draw.uniform(-60, 60, 3)
        noise = draw.normal(0, 12, (height // 8 + 1, width // 8 + 1, 3)).repeat(8, 0).repeat(8, 1)[:height, :width]
        pixels = np.clip(draw.uniform(0, 200, 3) + ramp + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name, quality=88)


class ClusteredVectors:
    """Unit vectors of made-up entities, the same on every call."""

    def __init__(self, entities: int, dimension: int) -> None:
        draw = np.random.default_rng(0)
        self.entities, self.dimension = entities, dimension
        self._spread = ((1 + np.arange(dimension)) ** -0.5).astype(np.float32)
        clusters = entities // _PER_CLUSTER + 1
        groups = self._noise(draw, clusters // _PER_GROUP + 1)
        own = self._noise(draw, clusters)
        self._centers = (groups[draw.integers(0, len(groups), clusters)] + 0.7 * own).astype(np.float16)

    def stored(self, rows: IntArray | range | Sequence[int]) -> FloatArray:
        """Returns the vectors of entities, float32 [len(rows), dimension]."""
        return self._unit(rows, 0.6, 1)

    def queries(self, rows: IntArray | range | Sequence[int]) -> FloatArray:
        """Returns a query for each of the entities, float32 [len(rows), dimension]."""
        vectors = self.stored(rows)
        noise = np.concatenate([self._noise(np.random.default_rng([2, row]), 1) for row in rows])
        mixed = vectors + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        unit: FloatArray = (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _unit(self, rows: IntArray | range | Sequence[int], spread: float, seed: int) -> FloatArray:
        draws = [np.random.default_rng([seed, row]) for row in rows]
        centers = self._centers[[int(draw.integers(0, len(self._centers))) for draw in draws]].astype(np.float32)
        vectors = centers + spread * np.concatenate([self._noise(draw, 1) for draw in draws])
        unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def _noise(self, draw: np.random.Generator, count: int) -> FloatArray:
        noise: FloatArray = draw.standard_normal((count, self.dimension), np.float32) * self._spread
        return noise


class StandIn:
    """Summarizer and encoders that cost little: titles, ones as tokens, and a made-up vector for each entity."""

    name = fingerprint = "free"
    token_shape = (32, 8)

    def __init__(self, vectors: ClusteredVectors) -> None:
        self._vectors = vectors
        self.dimension = vectors.dimension

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields the titles."""
        for entity in entities:
            yield entity.title

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns the vectors of the entities whose number is the second word of a title."""
        return torch.from_numpy(self._vectors.stored([int(text.split()[1]) for text in texts]))

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the query for an entity that the first pixel determines."""
        pixels = [int.from_bytes(image.convert("RGB").crop((0, 0, 1, 1)).tobytes()) for image in images]
        return torch.from_numpy(self._vectors.queries([pixel % self._vectors.entities for pixel in pixels]))

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(len(texts), *self.token_shape)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(sum(map(len, texts)), *self.token_shape)
