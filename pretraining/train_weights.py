"""Trains the embedded weights from this repository alone: `make weights`.

Step 1's encoder learns to find flags by their descriptions, and flags and designs of every kind by another image of the
same one. Step 2's fusion encoder learns to find the section that answers a question about such an image among the
sections of a whole batch, in which near twins are the hard negatives. All images are drawn anew for every step.

Batches follow from the seed and the step, so two threads on one kind of processor gives the same weights every time.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from indexes.builder.summarizers import ExtractiveSummarizer
from indexes.knowledge.reading import read_knowledge_base
from pretraining import encoder_batches, fusion_batches
from pretraining.camera import resized
from pretraining.demo.articles import articles
from pretraining.demo.facts import countries, url_of
from pretraining.demo.questions import questions
from pretraining.encoder_batches import EncoderBatches, encoder_loss, encoder_validation
from pretraining.flag_batches import corpus
from pretraining.fusion_batches import FusionBatches
from pretraining.fusion_model import FusionPretraining
from pretraining.new_fusion import new_fusion
from pretraining.tokenizer import train_tokenizer
from retriever.files import write_json
from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from training.config import Optimization, Schedule
from training.loop import train

Batch = TypeVar("Batch", covariant=True)

AHEAD = 4  # batches


class BatchStream(Generic[Batch]):
    """Batches by step, which must be requested in order, starting at any step.

    Args:
        batches: Makes the batch of a step from the step number alone.
        workers: Processes that make them; with 0, each batch is made on request.
    """

    def __init__(self, batches: Dataset[Batch], workers: int = 1):
        self.batches, self.workers = batches, workers
        self._made: Iterator[Batch] | None = None

    def __call__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        if self._made is None:
            self._made = iter(
                DataLoader(
                    self.batches,
                    batch_size=None,
                    sampler=range(step, sys.maxsize),
                    num_workers=self.workers,
                    prefetch_factor=AHEAD if self.workers else None,
                    multiprocessing_context="spawn" if self.workers else None,
                )
            )
        return next(self._made)


@dataclass(frozen=True, slots=True)
class EncoderStage:
    """A part of the encoder's training, which is one run on one schedule.

    Attributes:
        steps: Number of steps.
        sizes: Sides of the images in pixels; every step draws one.
    """

    steps: int
    sizes: tuple[int, ...]


ENCODER_SIZE = 128  # pixels, of the trained encoder
ENCODER_RATE = 5e-3
# Pixels cost time, so what fewer can teach comes first.
ENCODER_STAGES = (
    EncoderStage(950, (80,)),
    EncoderStage(450, (112,)),
    EncoderStage(700, (112, 128, 128, 144)),
)
# Planned for 2,650 steps; the last stage was shortened and cools down instead.
ENCODER_SCHEDULE = Schedule(planned=2650 / 2100, cooldown=700 / 2100)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionStage:
    """A part of the fusion encoder's training, a run of its own.

    Attributes:
        name: Of the run's folder.
        steps: Number of steps.
        learning_rate: At its peak.
        shared: Share of entities with the texts of others, see `FusionBatches`.
        trains_tower: Whether the image tower is trained, too.
    """

    name: str
    steps: int
    learning_rate: float
    shared: float
    trains_tower: bool


FUSION_SIZE = 144  # more than step 1 has, because step 2 looks at one image and not at millions
FUSION_STAGES = (
    FusionStage(name="fusion-run", steps=950, learning_rate=3e-3, shared=0.7, trains_tower=True),
    # The first stage teaches images and neglects texts.
    FusionStage(name="fusion-text-run", steps=300, learning_rate=1.5e-3, shared=0.3, trains_tower=False),
)


VOCABULARY = 6000
WORKERS = 2  # processes that draw; with one, both threads that train wait for the core that also draws
ENCODER_RUN = "encoder-run"
WEIGHTS = Path(__file__).resolve().parents[1] / "weights" / "embedded"


def train_encoder(out: Path, steps: int | None = None, seed: int = 0) -> Path:
    """Trains a step 1 encoder; returns its folder, `out/encoder`. A killed run resumes."""
    out.mkdir(parents=True, exist_ok=True)
    texts = summaries(out)
    config = SmallCLIPConfig(image_size=ENCODER_SIZE, vocab_size=VOCABULARY)
    torch.manual_seed(seed)
    model = SmallCLIP(config)
    rows = questions(random.Random(seed), 4)
    tokenizer = train_tokenizer(
        corpus(20_000, [*(t for a in articles().values() for t in a["section_texts"]), *(r["question"] for r in rows)]),
        VOCABULARY,
        config.max_text_tokens,
    )
    _resize_vocabulary(model, len(tokenizer))
    encoder = ClipEncoder(model, tokenizer, PixelPreparation(ENCODER_SIZE), config.max_text_tokens, "training")
    encoder.model.to(memory_format=torch.channels_last)
    stages = [stage for stage in ENCODER_STAGES for _ in range(steps or stage.steps)]
    batches = {stage: BatchStream(EncoderBatches(max(stage.sizes), texts, seed), WORKERS) for stage in ENCODER_STAGES}

    def loss_of(step: int, part: int) -> Tensor:
        stage = stages[step]
        size = random.Random(f"size {seed} {step}").choice(stage.sizes)
        return encoder_loss(encoder, batches[stage](step), size)

    metrics = train(
        encoder.model,
        loss_of,
        out=out / ENCODER_RUN,
        optimization=Optimization(
            steps=len(stages), learning_rate=ENCODER_RATE, optimizer="muon", schedule=ENCODER_SCHEDULE, seed=seed
        ),
        validate=encoder_validation(encoder, texts),
        validate_every=400,
        save_every=200,
        settings={
            "known": encoder_batches.KNOWN,
            "made_up": encoder_batches.MADE_UP,
            "clean": encoder_batches.CLEAN,
            "designs": encoder_batches.DESIGNS,
            "stickers": encoder_batches.STICKERS,
            "stages": [[stage.steps, *stage.sizes] for stage in ENCODER_STAGES],
        },
    )
    write_json(out / ENCODER_RUN / "metrics.json", metrics)
    encoder.save(out / "encoder", torch.float16)
    return out / "encoder"


def _resize_vocabulary(model: SmallCLIP, size: int) -> None:
    """Resizes the token embeddings to `size`; new ids get random vectors, existing ones keep theirs."""
    old = model.text_model.tokens
    new = nn.Embedding(size, old.embedding_dim, padding_idx=old.padding_idx)
    nn.init.normal_(new.weight, std=0.05)
    kept = min(size, old.num_embeddings)
    with torch.no_grad():
        new.weight[:kept] = old.weight[:kept]
    model.text_model.tokens = new
    model.config.vocab_size = size


def train_fusion(out: Path, steps: int | None = None, seed: int = 0) -> Path:
    """Trains a fusion encoder that starts with step 1's image tower; returns its folder, `out/fusion`.

    Step 1's scores are part of the loss, so it learns to tell apart what step 1 confuses. A killed run resumes.
    """
    first, encoder = ClipEncoder.load(out / "encoder"), ClipEncoder.load(out / "encoder")
    encoder.model.resize_images(FUSION_SIZE)
    encoder.model.to(memory_format=torch.channels_last)
    torch.manual_seed(seed)
    pixels = PixelPreparation(FUSION_SIZE)
    fusion = new_fusion(encoder.model.vision_model, encoder.model.config, encoder.tokenizer, pixels)

    def first_vectors(pixels: Tensor) -> Tensor:
        vectors: Tensor = first.model.get_image_features(resized(pixels, first.pixels.size))
        return vectors

    model, done = FusionPretraining(fusion, first_vectors), 0
    for stage in FUSION_STAGES:
        own = steps or stage.steps
        metrics = _train_fusion_stage(model, stage, out, own, done, seed)
        write_json(out / stage.name / "metrics.json", metrics)
        done += own
    unseen = FusionBatches(FUSION_SIZE, -1)
    model.center([unseen[number] for number in range(2, 10)])
    fusion.save(out / "fusion")
    return out / "fusion"


def _train_fusion_stage(
    model: FusionPretraining, stage: FusionStage, out: Path, steps: int, done: int, seed: int
) -> dict[str, float]:
    """Trains `model` in place with the batches after the first `done`; returns the metrics of the run."""
    model.fusion.vision.requires_grad_(stage.trains_tower)
    batches = BatchStream(FusionBatches(FUSION_SIZE, seed, stage.shared), WORKERS)
    unseen = FusionBatches(FUSION_SIZE, -1, stage.shared)
    held_out = [unseen[number] for number in range(2)]
    return train(
        model,
        lambda step, part: model.loss(batches(done + step), step),
        out=out / stage.name,
        optimization=Optimization(steps=steps, learning_rate=stage.learning_rate, optimizer="muon", seed=seed),
        validate=lambda: model.metrics(held_out),
        validate_every=100,
        save_every=50,
        settings={
            "known": fusion_batches.KNOWN,
            "made_up": fusion_batches.MADE_UP,
            "designs": fusion_batches.DESIGNS,
            "stickers": fusion_batches.STICKERS,
            "shared": stage.shared,
            "size": FUSION_SIZE,
        },
    )


def publish(out: Path, weights: Path) -> None:
    """Copies the models trained in `out` to `weights`, in half precision."""
    ClipEncoder.load(out / "encoder").save(weights / "encoder", torch.float16)
    QFormerFusion.load(out / "fusion").save(weights / "fusion", torch.float16)
    for part, run in (("encoder", ENCODER_RUN), ("fusion", FUSION_STAGES[0].name)):
        shutil.copy(out / run / "curve.png", weights / f"{part}-curve.png")


def summaries(folder: Path) -> dict[str, str]:
    """Returns the extractive summary of each country's article, by country code, as `omgm build-index` writes it."""
    path = folder / "kb_wiki.json"
    path.write_text(json.dumps(articles()), encoding="utf-8")
    entities = list(read_knowledge_base(path, "evqa"))
    texts = dict(zip((e.id for e in entities), ExtractiveSummarizer().stream(entities), strict=True))
    return {code: texts[url_of(country)] for code, country in countries().items()}


def main(argv: list[str] | None = None) -> None:
    """Trains one part of the embedded weights."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.train_weights", description=__doc__)
    parser.add_argument("part", choices=["encoder", "fusion", "publish"])
    parser.add_argument("--out", type=Path, default=Path("artifacts/weights"), help="folder of the run")
    parser.add_argument("--steps", type=int, help="steps of every stage, instead of its own number")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.part == "encoder":
        train_encoder(args.out, args.steps, args.seed)
    elif args.part == "fusion":
        train_fusion(args.out, args.steps, args.seed)
    else:
        publish(args.out, WEIGHTS)


if __name__ == "__main__":
    main()
