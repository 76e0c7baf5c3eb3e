"""A made-up data set of E-VQA's shape for benchmarking step 2's training.

Sections have a median of 156 tokens (120 English words in BERT's word pieces), a mean of 215 (log-normal, sigma 0.8).
An article has 4.65 sections on average: the paper's code sees 93 among 20 entities. Images are JPEGs of noise over a
gradient.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.full_size import WORDS
from evaluation.datasets import Question
from indexes.store.index import open_articles
from omgm import indexing
from omgm.originals import original_images
from omgm.profile import load_profile
from retriever.files import replace_with, write_lines
from training.reranker.data import RerankerData

MEDIAN_WORDS, SIGMA, MEAN_SECTIONS = 156, 0.8, 4.65
"""A word of `benchmarks.full_size` is one token."""
FOUND = 20


@dataclass(frozen=True, slots=True)
class DataSizes:
    """How much data to make up.

    Attributes:
        questions: Questions.
        entities: Articles, each with one image.
        query_images: Images of questions.
        side: Longer side of an image in pixels.
        image_files: Number of distinct image files; all others are links to them.
    """

    questions: int
    entities: int
    query_images: int
    side: int
    image_files: int


def write_data(folder: Path, sizes: DataSizes) -> RerankerData:
    """Writes `kb.jsonl`, `negatives.json`, images and an index, unless the folder has them; returns the data."""
    if not (folder / "negatives.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write_images(folder, sizes)
        write_lines(folder / "kb.jsonl", _articles(sizes))
        replace_with(folder / "negatives.json", lambda partial: _write_negatives(partial, sizes))
    kb, images, index = folder / "kb.jsonl", folder / "images", folder / "index"
    order = indexing.Build(kb=kb, out=index, images=images, kb_format="jsonl", tokens=False)
    indexing.build(load_profile("embedded"), order)
    return RerankerData(
        index=open_articles(index),
        originals=original_images(index),
        questions=list(_questions(sizes)),
        query_image_of=lambda image_id: folder / "queries" / f"{image_id}.jpg",
        negatives=folder / "negatives.json",
    )


def _text(generator: np.random.Generator, count: int) -> str:
    return " ".join(generator.choice(WORDS, count))


def _articles(sizes: DataSizes) -> Iterator[dict[str, Any]]:
    for entity in range(sizes.entities):
        generator = np.random.default_rng([0, 1, entity])
        lengths = generator.lognormal(np.log(MEDIAN_WORDS), SIGMA, 2 + generator.poisson(MEAN_SECTIONS - 2))
        yield {
            "id": f"e{entity}",
            "title": _text(generator, 2),
            "images": [{"url": f"{entity}.jpg"}],
            "sections": [
                {"title": _text(generator, 2), "text": _text(generator, max(5, int(length)))} for length in lengths
            ],
        }


def _questions(sizes: DataSizes) -> Iterator[Question]:
    for number in range(sizes.questions):
        generator = np.random.default_rng([0, 2, number])
        image = number % sizes.query_images
        text = "which " + _text(generator, 9)
        yield Question(str(number), text, f"q{image}", (), (f"e{_gold(image, sizes)}",), int(generator.integers(2)))


def _gold(image: int, sizes: DataSizes) -> int:
    return int(np.random.default_rng([0, 3, image]).integers(sizes.entities))


def _write_negatives(path: Path, sizes: DataSizes) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("{")
        for image in range(sizes.query_images):
            generator = np.random.default_rng([0, 4, image])
            others = generator.choice(sizes.entities, FOUND - 1, replace=False).tolist()
            found = dict.fromkeys([_gold(image, sizes), *others])
            row = {
                "gt_entity_pos_img": None,
                "top_20": [{"entry": f"e{entity}", "similarity": 0.5 - i / 100} for i, entity in enumerate(found)],
            }
            file.write(("" if image == 0 else ",\n") + f'"q{image}": {json.dumps(row)}')
        file.write("}\n")


def _write_images(folder: Path, sizes: DataSizes) -> None:
    generator = np.random.default_rng([0, 5])
    width, height = sizes.side, sizes.side * 3 // 4
    (folder / "files").mkdir()
    for number in range(sizes.image_files):
        corner = generator.uniform(0, 200, 3)
        ramp = np.linspace(0, 1, width)[None, :, None] * generator.uniform(-60, 60, 3)
        noise = generator.normal(0, 12, (height // 8 + 1, width // 8 + 1, 3)).repeat(8, 0).repeat(8, 1)
        pixels = np.clip(corner + ramp + noise[:height, :width], 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "files" / f"{number}.jpg", quality=88)
    for name, count, prefix in (("images", sizes.entities, ""), ("queries", sizes.query_images, "q")):
        (folder / name).mkdir()
        for number in range(count):
            # Links take no disk space; each one is decoded as a separate file.
            (folder / name / f"{prefix}{number}.jpg").hardlink_to(
                folder / "files" / f"{number % sizes.image_files}.jpg"
            )
