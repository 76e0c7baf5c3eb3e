"""Step 2's training: the Q-Former learns to tell the evidence from hard negatives (the paper's section 3.2)."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from indexes.formats import read_knowledge_base
from retriever.images import load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import read_layout
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity
from training.candidates import Pair, Sample, TrainingQuestion, draw_candidates, make_samples
from training.features import Features, Shown
from training.images import Load, main_images
from training.loop import train
from training.losses import contrastive_loss, mean_max_sim
from training.mine import read_negatives

logger = logging.getLogger(__name__)

CANDIDATES = 16
MOST_VALIDATED = 200
EPOCHS = 3
CACHE_GIB = 8.0


@dataclass(frozen=True, slots=True)
class Defaults:
    """What suits a kind of fusion encoder: the highest learning rate and the longest text in tokens."""

    learning_rate: float
    max_tokens: int


DEFAULTS = {"small_clip": Defaults(5e-4, 96), "blip2": Defaults(1e-5, 512)}
"""By the kind of image tower: ours begins untrained; BLIP-2's Q-Former is fine-tuned with the paper's code's values."""


class Reranker(nn.Module):
    """The fusion encoder with the temperature of equation 6, which is learned with it and not needed afterwards."""

    def __init__(self, fusion: QFormerFusion):
        super().__init__()
        self.fusion = fusion
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.07)))
        self.fusion.vision.requires_grad_(False)

    def train(self, mode: bool = True) -> Reranker:
        """Returns itself in training mode, all but the image tower, which stays as it is."""
        super().train(mode)
        self.fusion.vision.eval()
        return self

    @property
    def temperature(self) -> Tensor:
        """What similarities are divided by, a scalar."""
        return self.log_temperature.exp()


def train_reranker(
    fusion: Path,
    kb: Path,
    images: Path | None,
    questions: Sequence[TrainingQuestion],
    query_image_of: Callable[[str], Path | None],
    negatives: Path,
    out: Path,
    *,
    encoder: Path | None = None,
    kb_format: str | None = None,
    steps: int | None = None,
    minutes: float | None = 15,
    batch_size: int = 8,
    seed: int = 0,
    learning_rate: float | None = None,
    validation_share: float = 0.1,
    validate_every: int = 200,
    max_tokens: int | None = None,
    cache_gib: float = CACHE_GIB,
    device: str = "cpu",
    progress: bool = True,
) -> Path:
    """Returns the folder of the trained fusion encoder, `out/fusion`; curve and checkpoint lie in `out`.

    The image tower stays as it is, so the features of as many pictures as `cache_gib` holds are computed once: as the
    picture is and in some augmented views. A run that was cut off goes on from its checkpoint.

    Args:
        fusion: The folder of the encoder to start from.
        kb: The knowledge base.
        images: Its pictures, a folder or a ZIM file; `None` where the knowledge base holds them itself.
        questions: With their evidence sections; those without are left out and counted in the log.
        query_image_of: Finds the file of a question's picture by its id.
        negatives: What `mine_negatives` wrote.
        out: Gets `fusion/`, `checkpoint.safetensors`, `curve.csv`, `curve.png`.
        encoder: Folder of a step 1 encoder whose image tower replaces the fusion encoder's (see `shared_tower`).
        kb_format: See `indexes.formats`; guessed when `None`.
        steps: Most steps; left out, as many as `minutes` allow, or `EPOCHS` times the questions.
        minutes: Most wall time of the steps (the features that are kept come before).
        batch_size: Questions a step, each with 16 candidates.
        seed: Of everything drawn.
        learning_rate: Highest rate; left out, see `DEFAULTS`.
        validation_share: Share of the pictures that is held out, with all questions about them.
        validate_every: Steps between two validations and checkpoints.
        max_tokens: Texts are cut here in training if not by the encoder's own limit; left out, see `DEFAULTS`.
        cache_gib: Memory for the pictures' features, in GiB; what does not fit is computed whenever it is shown.
        device: Where it is trained.
        progress: Shows progress bars.

    Raises:
        ValueError: A file is not as it should be, or no question can be trained on.
    """
    defaults = DEFAULTS[read_layout(fusion).settings["vision"]["kind"]]
    learning_rate, max_tokens = learning_rate or defaults.learning_rate, max_tokens or defaults.max_tokens
    start = QFormerFusion.load(fusion, device)
    tower = start.fingerprint if encoder is None else _take_tower(start, encoder)
    mined = read_negatives(negatives)
    wanted = {key for found in mined.values() for key in found} | {key for q in questions for key in q.entity_ids}
    entities = {entity.id: entity for entity in read_knowledge_base(kb, kb_format) if entity.id in wanted}
    main = main_images(images, kb, kb_format, entities)
    asked = {question.image_id: query_image_of(question.image_id) for question in questions}
    samples = make_samples(questions, entities, mined, lambda entity: main.get(entity.id), asked.get, CANDIDATES)
    training, validation = split_samples(samples, validation_share, seed)
    if not training:
        raise ValueError(f"{negatives}: none of {len(questions)} questions can be trained on; the log says why")
    logger.info("%d questions to train on, %d to validate on", len(training), len(validation))

    model = Reranker(start).to(device)
    used = {sample.positive.entity_id for sample in samples} | {key for sample in samples for key in sample.others}
    trained_on = dict.fromkeys(sample.image_id for sample in samples)
    pictures: dict[Shown, Load] = {
        Shown("query", key): partial(load_image, path) for key in trained_on if (path := asked[key]) is not None
    }
    pictures |= {Shown("main", key): main[key] for key in sorted(used)}
    features = Features(start, pictures, seed, int(cache_gib * 2**30))
    features.fill(progress)
    batches = Batches(model, entities, features, max_tokens)

    def loss_of(step: int) -> Tensor:
        rng = random.Random(f"{seed}:{step}")
        chosen = rng.sample(training, min(batch_size, len(training)))
        similarities = batches.similarities(chosen, rng, augmented=True)
        return contrastive_loss(similarities, model.temperature)

    def validate() -> dict[str, float]:
        first, losses = 0, 0.0
        for begin in range(0, len(validation), batch_size):
            part = validation[begin : begin + batch_size]
            similarities = batches.similarities(part, random.Random(f"{seed}:validation:{begin}"), augmented=False)
            first += int((similarities[:, 0] > similarities[:, 1:].amax(1)).sum())
            losses += float(contrastive_loss(similarities, model.temperature)) * len(part)
        count = max(1, len(validation))
        temperature = float(model.temperature)
        return {"positive_first": first / count, "validation_loss": losses / count, "temperature": temperature}

    if steps is None:
        steps = 10**6 if minutes is not None else math.ceil(EPOCHS * len(training) / batch_size)
    result = train(
        model,
        loss_of,
        out=out,
        steps=steps,
        learning_rate=learning_rate,
        validate=validate if validation else None,
        validate_every=validate_every,
        save_every=validate_every,
        minutes=minutes,
        seed=seed,
        settings={
            "fusion": start.fingerprint,
            "image tower": tower,
            "questions": _digest(samples),
            "batch_size": batch_size,
            "validation_share": validation_share,
            "max_tokens": max_tokens,
        },
        progress=progress,
    )
    logger.info("trained: %s", result)
    start.save(out / "fusion")
    return out / "fusion"


def split_samples(samples: Sequence[Sample], share: float, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Returns samples to train on and at most `MOST_VALIDATED` to validate on; no picture is in both."""
    pictures = sorted({sample.image_id for sample in samples})
    held_out = set(random.Random(f"{seed}:split").sample(pictures, int(share * len(pictures))))
    training = [sample for sample in samples if sample.image_id not in held_out]
    validation = [sample for sample in samples if sample.image_id in held_out]
    random.Random(f"{seed}:validation").shuffle(validation)
    return training, validation[:MOST_VALIDATED]


class Batches:
    """Samples to similarities: texts are prepared and cut into tokens once.

    Args:
        model: What is trained.
        entities: By their ids.
        features: Of the questions' pictures and of the main images.
        max_tokens: Longest text.
    """

    def __init__(
        self,
        model: Reranker,
        entities: Mapping[str, Entity],
        features: Features,
        max_tokens: int,
    ):
        self.model = model
        self.entities = entities
        self.features = features
        self.max_tokens = max_tokens
        self._ids: dict[Pair | str, list[int]] = {}

    def similarities(self, samples: Sequence[Sample], rng: random.Random, augmented: bool) -> Tensor:
        """Returns the similarity of each question to its candidates, float32 [B, 16], the positive in column 0."""
        drawn = [draw_candidates(sample, self.entities, rng, CANDIDATES) for sample in samples]
        pairs = [pair for candidates in drawn for pair in candidates]
        asked = [self.features[Shown("query", sample.image_id)] for sample in samples]
        shown = [self.features[Shown("main", pair.entity_id)] for pair in pairs]
        query = self._fuse(asked, [sample.question for sample in samples], rng if augmented else None)
        candidates = self._fuse(shown, pairs, rng if augmented else None)
        return mean_max_sim(query, candidates.view(len(samples), CANDIDATES, *query.shape[1:]))

    def _fuse(self, features: Sequence[Tensor], texts: Sequence[Pair | str], rng: random.Random | None) -> Tensor:
        fusion = self.model.fusion
        device = fusion.query_tokens.device
        views = torch.stack([views[rng.randrange(len(views)) if rng else 0] for views in features])
        ids = [self._tokens(text) for text in texts]
        padded = torch.full((len(ids), max(map(len, ids))), fusion.tokenizer.pad_token_id)
        mask = torch.zeros_like(padded)
        for i, row in enumerate(ids):
            padded[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return fusion.fuse_tokens(views.to(device).float(), padded.to(device), mask.to(device))

    def _tokens(self, text: Pair | str) -> list[int]:
        if text not in self._ids:
            if isinstance(text, str):
                prepared = blip_caption(text)
            else:
                entity = self.entities[text.entity_id]
                section = entity.sections[text.position]
                prepared = blip_caption(section_passage(entity.title, section.title, section.text))
            tokenizer = self.model.fusion.tokenizer
            limit = min(self.max_tokens, self.model.fusion.max_text_tokens)
            self._ids[text] = tokenizer(prepared, truncation=True, max_length=limit)["input_ids"]
        return self._ids[text]


def shared_tower(fusion: Path, encoder: Path) -> Path | None:
    """Returns `encoder` where its image tower can replace that of the fusion encoder, else `None`.

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
