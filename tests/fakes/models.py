"""Fake models that look at colors and words, need no weights and always return the same vectors."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Generator, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from retriever.texts import split_passage
from retriever.types import Entity, FloatArray

PALETTE = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
}


def color_shares(image: Image.Image) -> FloatArray:
    """Returns the share of each palette color among the pixels (nearest color wins), float32 [6]."""
    pixels = np.asarray(image.resize((16, 16)), dtype=np.float32).reshape(-1, 1, 3)
    colors = np.array(list(PALETTE.values()), dtype=np.float32)
    nearest = ((pixels - colors) ** 2).sum(-1).argmin(-1)
    return (np.bincount(nearest, minlength=len(colors)) / len(pixels)).astype(np.float32)


class FakeEncoder:
    """A dual encoder: images map to their colors, texts to their color words, or to the last dimension without any."""

    def __init__(self, fingerprint: str = "fake-encoder-1") -> None:
        self.dimension = len(PALETTE) + 1
        self.fingerprint = fingerprint

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return self._unit([[*color_shares(image), 0] for image in images])

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        words = [re.findall(r"\w+", text.lower()) for text in texts]
        counts = [[found.count(color) for color in PALETTE] for found in words]
        return self._unit([[*row, 0 if any(row) else 1] for row in counts])

    def _unit(self, rows: Sequence[Sequence[float]]) -> torch.Tensor:
        vectors = torch.tensor(rows, dtype=torch.float32).reshape(-1, self.dimension)
        return torch.nn.functional.normalize(vectors, dim=-1)


class FakeFusion:
    """A fusion encoder: token i is a fixed random projection of the image's colors and the text's hashed words."""

    def __init__(self, tokens: int = 32, width: int = 8, fingerprint: str = "fake-fusion-1") -> None:
        self.token_shape = (tokens, width)
        self.fingerprint = fingerprint
        generator = torch.Generator().manual_seed(0)
        self._projection = torch.randn(len(PALETTE) + 64, tokens * width, generator=generator)

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        rows = [
            torch.cat([torch.from_numpy(color_shares(image)), _word_counts(text)])
            for image, text in zip(images, texts, strict=True)
        ]
        features = torch.stack(rows) if rows else torch.zeros(0, len(PALETTE) + 64)
        return torch.einsum("nf,fd->nd", features, self._projection).reshape(-1, *self.token_shape)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        pairs = [(image, text) for image, own in zip(images, texts, strict=True) for text in own]
        return self.encode([image for image, _ in pairs], [text for _, text in pairs])


class FakeSummarizer:
    """Summarizes an article by its title and first sentence."""

    name = "first-sentence"

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        for entity in entities:
            yield f"{entity.title}. {entity.sections[0].text.split('.')[0] if entity.sections else ''}"


def _word_counts(text: str) -> torch.Tensor:
    counts = torch.zeros(64)
    for word in text.lower().split():
        counts[hashlib.sha256(word.encode()).digest()[0] % 64] += 1
    return counts


class FakeSections:
    """A section encoder: a window per line of a passage, whose vector counts hashed words."""

    dimension = 16

    def __init__(self, fingerprint: str = "fake-sections-1") -> None:
        self.fingerprint = fingerprint
        self.encoded = 0

    def encode_questions(self, questions: Sequence[str]) -> FloatArray:
        rows = np.array([self._count(question) for question in questions], np.float32).reshape(-1, self.dimension)
        unit: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        return unit

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        self.encoded += len(passages)
        return [
            np.array([self._count(line) for line in split_passage(passage)[1].split("\n")], np.int8)
            for passage in passages
        ]

    def _count(self, text: str) -> list[int]:
        hashed = [zlib.crc32(word.encode()) % self.dimension for word in re.findall(r"\w+", text.lower())]
        return [min(hashed.count(value), 127) for value in range(self.dimension)]
