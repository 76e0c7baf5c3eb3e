"""A made-up knowledge base of any size, and models that cost nothing, to measure everything but the models."""

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
from retriever.types import Entity

_IMAGE_EVERY = 10
_DIMENSION, _TOKENS = 64, (32, 8)


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


class FreeModels:
    """Summarizer, dual encoder and fusion encoder that cost nothing; vectors depend on the text length."""

    name = fingerprint = "free"
    dimension, token_shape = _DIMENSION, _TOKENS

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        """Yields the titles."""
        for entity in entities:
            yield entity.title

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns a vector that depends on each text's length."""
        drawn = [np.random.default_rng(len(text)).normal(size=_DIMENSION) for text in texts]
        return torch.nn.functional.normalize(torch.tensor(np.array(drawn), dtype=torch.float32), dim=-1)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Returns the same vector for all images."""
        return self.encode_texts(["image"] * len(images))

    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(len(texts), *_TOKENS)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        """Returns ones."""
        return torch.ones(sum(map(len, texts)), *_TOKENS)
