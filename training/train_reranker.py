"""Step 2's training: the Q-Former learns to tell the evidence from hard negatives (the paper's section 3.2)."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from torch import Tensor

from indexes.formats import read_knowledge_base
from retriever.images import load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import read_layout
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from retriever.types import Entity
from training.candidates import Sample, TrainingQuestion, make_samples
from training.config import RerankerTrainingConfig
from training.features import Features, ImageKey
from training.images import ImageLoader, main_images
from training.loop import train
from training.losses import contrastive_loss
from training.mine import read_negatives
from training.reranker import CANDIDATES, Reranker, SampleScorer

logger = logging.getLogger(__name__)

MOST_VALIDATED = 200
EPOCHS = 3


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """Settings that suit a kind of fusion encoder: the peak learning rate and the longest text in tokens."""

    learning_rate: float
    max_tokens: int


DEFAULTS = {"small_clip": ModelDefaults(5e-4, 96), "blip2": ModelDefaults(1e-5, 512)}
"""By kind of image tower. Ours starts untrained; BLIP-2's is fine-tuned with the values of the paper's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerData:
    """The data that step 2 is trained on.

    Attributes:
        kb: The knowledge base.
        images: A folder or a ZIM file with its images; `None` if the knowledge base holds its own.
        questions: Questions with their evidence sections; those without are left out and counted in the log.
        query_image_of: Finds the file of a question's image by its id; returns `None` if there is none.
        negatives: The file that `mine_negatives` wrote.
        kb_format: See `indexes.formats`; guessed when `None`.
        drop_sections: Titles of sections to leave out, as in the index; see `indexes.formats.dropped_titles`.
    """

    kb: Path
    images: Path | None
    questions: Sequence[TrainingQuestion]
    query_image_of: Callable[[str], Path | None]
    negatives: Path
    kb_format: str | None = None
    drop_sections: Sequence[str] | None = None


def train_reranker(
    fusion: Path,
    data: RerankerData,
    out: Path,
    config: RerankerTrainingConfig = RerankerTrainingConfig(),  # noqa: B008  frozen
    *,
    encoder: Path | None = None,
    progress: bool = True,
) -> Path:
    """Trains a fusion encoder; returns its folder, `out/fusion`.

    The image tower is frozen, so image features are computed once, of each image as it is and of some augmented views;
    `config.cache_gib` limits how many are kept. A killed run resumes from its checkpoint.

    Args:
        fusion: Folder of the encoder to start from.
        data: Knowledge base, questions and negatives.
        out: Folder for `fusion/`, `checkpoint.safetensors`, `curve.csv` and `curve.png`.
        config: Limits, batch size, seed and device.
        encoder: Folder of a step 1 encoder whose image tower replaces the fusion encoder's (see `shared_tower`).
        progress: Shows progress bars.

    Raises:
        ValueError: A file is malformed, or no question can be trained on.
    """
    defaults = DEFAULTS[read_layout(fusion).settings["vision"]["kind"]]
    max_tokens = config.max_tokens or defaults.max_tokens
    start = QFormerFusion.load(fusion, config.device)
    tower = start.fingerprint if encoder is None else _take_tower(start, encoder)
    entities, samples, images = _read(data)
    training, validation = split_samples(samples, config.validation_share, config.seed)
    if not training:
        raise ValueError(
            f"{data.negatives}: none of {len(data.questions)} questions can be trained on; the log says why"
        )
    logger.info("%d questions to train on, %d to validate on", len(training), len(validation))

    model = Reranker(start).to(config.device)
    features = Features(start, images, config.seed, int(config.cache_gib * 2**30))
    features.fill(progress)
    scorer = SampleScorer(model, entities, features, max_tokens)

    def loss_of(step: int) -> Tensor:
        rng = random.Random(f"{config.seed}:{step}")
        chosen = rng.sample(training, min(config.batch_size, len(training)))
        return contrastive_loss(scorer.similarities(chosen, rng, augmented=True), model.temperature)

    if config.steps is None and config.minutes is None:
        config = replace(config, steps=math.ceil(EPOCHS * len(training) / config.batch_size))
    result = train(
        model,
        loss_of,
        out=out,
        optimization=config.optimization(defaults.learning_rate),
        validate=_validation(scorer, validation, config) if validation else None,
        validate_every=config.validate_every,
        save_every=config.validate_every,
        settings={
            "fusion": start.fingerprint,
            "image tower": tower,
            "questions": _digest(samples),
            "batch_size": config.batch_size,
            "validation_share": config.validation_share,
            "max_tokens": max_tokens,
        },
        progress=progress,
    )
    logger.info("trained: %s", result)
    start.save(out / "fusion")
    return out / "fusion"


def _read(data: RerankerData) -> tuple[dict[str, Entity], list[Sample], dict[ImageKey, ImageLoader]]:
    """Reads the entities, the samples and the images of a training."""
    mined = read_negatives(data.negatives)
    wanted = {key for found in mined.values() for key in found} | {key for q in data.questions for key in q.entity_ids}
    articles = read_knowledge_base(data.kb, data.kb_format, data.drop_sections)
    entities = {entity.id: entity for entity in articles if entity.id in wanted}
    main = main_images(data.images, data.kb, data.kb_format, entities)
    paths = {question.image_id: data.query_image_of(question.image_id) for question in data.questions}
    samples = make_samples(data.questions, entities, mined, lambda entity: main.get(entity.id), paths.get, CANDIDATES)
    images: dict[ImageKey, ImageLoader] = {
        ImageKey("query", key): partial(load_image, path)
        for key in dict.fromkeys(sample.image_id for sample in samples)
        if (path := paths[key]) is not None
    }
    used = {sample.positive.entity_id for sample in samples} | {key for sample in samples for key in sample.others}
    images |= {ImageKey("main", key): main[key] for key in sorted(used)}
    return entities, samples, images


def _validation(
    scorer: SampleScorer, samples: Sequence[Sample], config: RerankerTrainingConfig
) -> Callable[[], dict[str, float]]:
    """Returns a function that validates the model: how often the positive comes first, and the loss."""

    def validate() -> dict[str, float]:
        first, losses = 0, 0.0
        for begin in range(0, len(samples), config.batch_size):
            batch = samples[begin : begin + config.batch_size]
            rng = random.Random(f"{config.seed}:validation:{begin}")
            similarities = scorer.similarities(batch, rng, augmented=False)
            first += int((similarities[:, 0] > similarities[:, 1:].amax(1)).sum())
            losses += float(contrastive_loss(similarities, scorer.model.temperature)) * len(batch)
        return {
            "positive_first": first / len(samples),
            "validation_loss": losses / len(samples),
            "temperature": float(scorer.model.temperature),
        }

    return validate


def split_samples(samples: Sequence[Sample], share: float, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Splits samples into those to train on and at most `MOST_VALIDATED` to validate on; no image is in both."""
    images = sorted({sample.image_id for sample in samples})
    held_out = set(random.Random(f"{seed}:split").sample(images, int(share * len(images))))
    training = [sample for sample in samples if sample.image_id not in held_out]
    validation = [sample for sample in samples if sample.image_id in held_out]
    random.Random(f"{seed}:validation").shuffle(validation)
    return training, validation[:MOST_VALIDATED]


def shared_tower(fusion: Path, encoder: Path) -> Path | None:
    """Returns `encoder` if its image tower can replace that of the fusion encoder, else `None`.

    Published models keep their own: BLIP-2's ViT-g is not step 1's tower.
    """
    path = encoder / "config.json"
    of_encoder = json.loads(path.read_text(encoding="utf-8")).get("model_type") if path.is_file() else None
    kinds = {of_encoder, read_layout(fusion).settings["vision"]["kind"]}
    return encoder if kinds == {SmallCLIPConfig.model_type} else None


def _take_tower(fusion: QFormerFusion, folder: Path) -> str:
    """Puts the image tower of a step 1 encoder into `fusion`; returns the encoder's fingerprint."""
    encoder = ClipEncoder.load(folder)
    config = encoder.model.config
    if not isinstance(config, SmallCLIPConfig) or not isinstance(fusion.vision, SmallVision):
        raise ValueError(f"{folder}: its image tower cannot replace the fusion encoder's; leave the encoder out")
    fusion.use_vision(encoder.model.vision_model, config, encoder.pixels)
    return encoder.fingerprint


def _digest(samples: Sequence[Sample]) -> str:
    return hashlib.sha256("\n".join(map(repr, samples)).encode()).hexdigest()[:16]
