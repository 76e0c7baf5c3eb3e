"""A made-up data set of E-VQA's shape for benchmarking step 2's training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.made_up import WORDS, articles, write_images
from evaluation.datasets import Question
from indexes.store.index import open_articles
from omgm import indexing
from omgm.originals import original_images
from omgm.profile import load_profile
from retriever.files import replace_with, write_lines
from training.reranker.data import RerankerData

FOUND = 20


@dataclass(frozen=True, slots=True)
class DataSizes:
    """How much data to make up.

    Attributes:
        questions: Questions.
        entities: Articles, each with one image.
        query_images: Images of questions.
        side: Longer side of an image in pixels.
        drawn: Number of images of each kind that are drawn; all others are links to them.
    """

    questions: int
    entities: int
    query_images: int
    side: int
    drawn: int


def write_data(folder: Path, sizes: DataSizes) -> RerankerData:
    """Writes `kb.jsonl`, `negatives.json`, images and an index, unless the folder has them; returns the data."""
    if not (folder / "negatives.json").is_file():
        for name, count, prefix in (("images", sizes.entities, ""), ("queries", sizes.query_images, "q")):
            write_images(folder / name, [f"{prefix}{n}.jpg" for n in range(count)], sizes.side, sizes.drawn)
        write_lines(folder / "kb.jsonl", articles(sizes.entities))
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


def _questions(sizes: DataSizes) -> Iterator[Question]:
    for number in range(sizes.questions):
        generator = np.random.default_rng([0, 2, number])
        image = number % sizes.query_images
        text = "which " + " ".join(generator.choice(WORDS, 9))
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
