"""A small training set for step 2: eight plain images, articles of four sections each, two questions per entity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from evaluation.datasets import Question
from pretraining.new_fusion import new_fusion
from pretraining.tokenizer import train_tokenizer
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig, SmallVision
from tests.fakes.plans import indexed
from training.reranker.data import RerankerData

COLORS = ["red", "blue", "green", "yellow", "white", "black", "orange", "purple"]
TOPICS = ["capital", "river", "height", "people"]


@dataclass(frozen=True)
class TrainingWorld:
    """A folder with `kb.json`, `images`, `queries`, `negatives.json` and the models `clip` and `fusion`."""

    folder: Path
    questions: list[Question]

    def query_image_of(self, image_id: str) -> Path | None:
        path = self.folder / "queries" / f"{image_id}.png"
        return path if path.is_file() else None

    @property
    def kb(self) -> Path:
        return self.folder / "kb.json"

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def data(self) -> RerankerData:
        return RerankerData(
            **indexed(self.kb, self.images),
            questions=self.questions,
            query_image_of=self.query_image_of,
            negatives=self.folder / "negatives.json",
        )


def write_training_world(folder: Path) -> TrainingWorld:
    """Writes the files, models included."""
    (folder / "images").mkdir()
    (folder / "queries").mkdir()
    kb, negatives, questions = {}, {}, []
    for i, color in enumerate(COLORS):
        url = f"https://e.example/wiki/{color}"
        Image.new("RGB", (40, 40), color).save(folder / "images" / f"{color}.png")
        Image.new("RGB", (50, 30), color).save(folder / "queries" / f"q_{color}.png")
        kb[url] = {
            "title": f"land {i}",
            "url": url,
            "section_titles": TOPICS,
            "section_texts": [f"the {topic} of it" for topic in TOPICS],
            "image_urls": [f"https://e.example/{color}.png"],
            "image_reference_descriptions": [color],
            "image_section_indices": [0],
        }
        others = [f"https://e.example/wiki/{other}" for other in COLORS]
        negatives[f"q_{color}"] = {"gt_entity_pos_img": None, "top_20": [{"entry": other} for other in others]}
        for number in (i % 4, (i + 1) % 4):
            text = f"what is the {TOPICS[number]}?"
            questions.append(Question(f"{color}_{number}", text, f"q_{color}", (), (url,), number))
    (folder / "kb.json").write_text(json.dumps(kb))
    (folder / "negatives.json").write_text(json.dumps(negatives))
    torch.manual_seed(0)
    config = SmallCLIPConfig(image_size=32, channels=(8, 8, 16, 32), vision_heads=2, vocab_size=120, text_width=16)
    texts = [f"wiki article land {i} section title {t} what is the {t} of it" for i in range(8) for t in TOPICS]
    tokenizer = train_tokenizer(texts, 120, 32)
    clip = SmallCLIP(config)
    ClipEncoder(clip, tokenizer, PixelPreparation(32), 32, "").save(folder / "clip")
    torch.manual_seed(1)
    vision = SmallVision(config)
    fusion = new_fusion(
        vision, config, tokenizer, PixelPreparation(32), hidden_size=32, layers=2, queries=8, max_text_tokens=32
    )
    fusion.save(folder / "fusion")
    return TrainingWorld(folder, questions)
