"""A made-up knowledge base of any size, and models that cost little, to measure everything but the models."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from retriever.files import replace_with
from retriever.types import Entity, FloatArray, IntArray

_IMAGE_EVERY = 10
_PER_CLUSTER, _PER_GROUP = 50, 20


def write_knowledge_base(folder: Path, entities: int, sections: tuple[int, int]) -> tuple[Path, Path]:
    """Writes a knowledge base in E-VQA's format and its images unless they exist; returns the file and the folder.

    The words are made up and always the same. An article has 2 to 4 image URLs, every tenth one a small image.
    """
    kb, images = folder / f"kb_{entities}.json", folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    if kb.exists():
        return kb, images
    words = [hashlib.blake2b(str(n).encode(), digest_size=4).hexdigest()[: 3 + n % 6] for n in range(5000)]

    def write(partial: Path) -> None:
        with partial.open("w", encoding="utf-8") as file:
            file.write("{")
            for number, (url, entry) in enumerate(_entries(words, entities, sections)):
                file.write(("" if number == 0 else ", ") + json.dumps(url) + ": " + json.dumps(entry))
            file.write("}")

    replace_with(kb, write)
    for number in range(0, entities, _IMAGE_EVERY):
        color = tuple(hashlib.blake2b(str(number).encode(), digest_size=3).digest())
        Image.new("RGB", (32, 32), color).save(images / f"{number}_1.jpg")
    return kb, images


def _entries(words: Sequence[str], entities: int, sections: tuple[int, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(entities):
        chance = random.Random(number)
        title = f"Entity {number} {chance.choice(words)}"
        url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
        count = chance.randint(*sections)
        images = [f"https://upload.example/{number}_{n}.jpg" for n in range(chance.randint(2, 4))]
        yield (
            url,
            {
                "title": title,
                "section_titles": [title, *(f"Section {n}" for n in range(1, count))],
                "section_texts": [" ".join(chance.choices(words, k=chance.randint(100, 380))) for _ in range(count)],
                "image_urls": images,
                "image_reference_descriptions": [f"Picture {n} of {title}" for n in range(len(images))],
                "image_section_indices": [n % count for n in range(len(images))],
                "url": url,
            },
        )


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
