"""Step 2's training: the Q-Former learns to tell the evidence from hard negatives (the paper's section 3.2)."""

from __future__ import annotations

import hashlib
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from PIL import Image, ImageEnhance
from torch import Tensor, nn
from tqdm import tqdm

from indexes.formats import read_knowledge_base
from indexes.images import find_image, load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.fusion import QFormerFusion
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from retriever.texts import blip_caption, section_passage
from retriever.types import Entity
from training.candidates import Pair, Sample, TrainingQuestion, draw_candidates, make_samples
from training.loop import train
from training.losses import contrastive_loss, mean_max_sim
from training.mine import read_negatives

logger = logging.getLogger(__name__)

CANDIDATES = 16
QUERY_VIEWS = 4
MAIN_VIEWS = 2
MOST_VALIDATED = 200
EPOCHS = 3


class Reranker(nn.Module):
    """The fusion encoder with the temperature of equation 6, which is learned with it and not needed afterwards."""

    def __init__(self, fusion: QFormerFusion):
        super().__init__()
        self.fusion = fusion
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.07)))
        self.fusion.vision.requires_grad_(False)

    @property
    def temperature(self) -> Tensor:
        """What similarities are divided by, a scalar."""
        return self.log_temperature.exp()


def train_reranker(
    fusion: Path,
    kb: Path,
    images: Path,
    questions: Sequence[TrainingQuestion],
    query_image_of: Callable[[str], Path | None],
    negatives: Path,
    out: Path,
    *,
    encoder: Path | None = None,
    steps: int | None = None,
    minutes: float | None = 15,
    batch_size: int = 8,
    seed: int = 0,
    learning_rate: float = 5e-4,
    validation_share: float = 0.1,
    validate_every: int = 200,
    max_tokens: int = 96,
    device: str = "cpu",
    progress: bool = True,
) -> Path:
    """Returns the folder of the trained fusion encoder, `out/fusion`; curve and checkpoint lie in `out`.

    The image tower stays as it is, so each picture's features are computed once: as the picture is and in some
    augmented views. A run that was cut off goes on from its checkpoint.

    Args:
        fusion: The folder of the encoder to start from.
        kb: The knowledge base.
        images: Its pictures.
        questions: With their evidence sections; those without are left out and counted in the log.
        query_image_of: Finds the file of a question's picture by its id.
        negatives: What `mine_negatives` wrote.
        out: Gets `fusion/`, `checkpoint.safetensors`, `curve.csv`, `curve.png`.
        encoder: Folder of a step 1 encoder whose image tower replaces the fusion encoder's.
        steps: Most steps; left out, as many as `minutes` allow, or `EPOCHS` times the questions.
        minutes: Most wall time of the steps (the pictures' features come before).
        batch_size: Questions a step, each with 16 candidates.
        seed: Of everything drawn.
        learning_rate: Highest rate.
        validation_share: Share of the pictures that is held out, with all questions about them.
        validate_every: Steps between two validations and checkpoints.
        max_tokens: Texts are cut here in training, shorter than the encoder's own limit.
        device: Where it is trained.
        progress: Shows progress bars.

    Raises:
        ValueError: A file is not as it should be, or no question can be trained on.
    """
    start = QFormerFusion.load(fusion, device)
    tower = start.fingerprint if encoder is None else _take_tower(start, encoder)
    mined = read_negatives(negatives)
    wanted = {key for found in mined.values() for key in found} | {key for q in questions for key in q.entity_ids}
    entities = {entity.id: entity for entity in read_knowledge_base(kb) if entity.id in wanted}
    paths = {key: find_image(images, e.image) for key, e in entities.items() if e.image is not None}
    samples = make_samples(questions, entities, mined, lambda entity: paths.get(entity.id), query_image_of, CANDIDATES)
    training, validation = split_samples(samples, validation_share, seed)
    if not training:
        raise ValueError(f"{negatives}: none of {len(questions)} questions can be trained on; the log says why")
    logger.info("%d questions to train on, %d to validate on", len(training), len(validation))

    model = Reranker(start).to(device)
    used = {sample.positive.entity_id for sample in samples} | {key for sample in samples for key in sample.others}
    main_features = features_of(start, {key: paths[key] for key in sorted(used)}, MAIN_VIEWS, seed, progress)
    asked = {sample.image_id: query_image_of(sample.image_id) for sample in samples}
    query_features = features_of(start, asked, QUERY_VIEWS, seed, progress)
    batches = Batches(model, entities, query_features, main_features, max_tokens)

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


def augment(image: Image.Image, rng: random.Random) -> Image.Image:
    """Returns a part of the picture (70 to 100% of its area) with brightness and contrast changed a little."""
    area, ratio = rng.uniform(0.7, 1.0), math.exp(rng.uniform(-0.15, 0.15))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    box = [left * image.width, top * image.height, (left + width) * image.width, (top + height) * image.height]
    image = image.crop((int(box[0]), int(box[1]), math.ceil(box[2]), math.ceil(box[3])))
    image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.75, 1.25))
    return ImageEnhance.Contrast(image).enhance(rng.uniform(0.75, 1.25))


@torch.inference_mode()
def features_of(
    fusion: QFormerFusion, paths: Mapping[str, Path | None], views: int, seed: int, progress: bool
) -> dict[str, Tensor]:
    """Returns each picture's features, bfloat16 [views, cells, width] on the CPU; view 0 is the picture as it is.

    Raises:
        ValueError: A picture cannot be read.
    """
    features = {}
    for key, path in tqdm(paths.items(), desc="features", unit="picture", disable=not progress):
        if path is None:
            continue
        image = load_image(path)
        # Larger ones only cost time: every view is brought to the tower's size anyway.
        image.thumbnail((4 * fusion.pixels.size, 4 * fusion.pixels.size), reducing_gap=2.0)
        rng = random.Random(f"{seed}:{key}")
        pixels = fusion.pixels([image, *(augment(image, rng) for _ in range(views - 1))])
        found = fusion.vision_features(pixels.to(fusion.query_tokens.device))
        features[key] = found.bfloat16().cpu().clone()
    return features


class Batches:
    """Samples to similarities: texts are prepared and cut into tokens once.

    Args:
        model: What is trained.
        entities: By their ids.
        query_features: By picture id, from `features_of`.
        main_features: By entity id, from `features_of`.
        max_tokens: Longest text.
    """

    def __init__(
        self,
        model: Reranker,
        entities: Mapping[str, Entity],
        query_features: Mapping[str, Tensor],
        main_features: Mapping[str, Tensor],
        max_tokens: int,
    ):
        self.model = model
        self.entities = entities
        self.query_features = query_features
        self.main_features = main_features
        self.max_tokens = max_tokens
        self._ids: dict[Pair | str, list[int]] = {}

    def similarities(self, samples: Sequence[Sample], rng: random.Random, augmented: bool) -> Tensor:
        """Returns the similarity of each question to its candidates, float32 [B, 16], the positive in column 0."""
        drawn = [draw_candidates(sample, self.entities, rng, CANDIDATES) for sample in samples]
        pairs = [pair for candidates in drawn for pair in candidates]
        asked = [self.query_features[sample.image_id] for sample in samples]
        shown = [self.main_features[pair.entity_id] for pair in pairs]
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
