"""Adapts step 1 to a knowledge base: trains it on main images and labeled images against the summaries.

In every batch, images are contrasted with the summaries of their own and other entities (equation 2's encoders), and
with the main images of their own and other entities: step 1 may search both, and step 2 uses the same image tower.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from indexes.labeled_images import LabeledImage, with_known_entities
from retriever.borders import load_query_image
from retriever.models.encoder import ClipEncoder
from retriever.models.precision import autocast, fastest_dtype
from retriever.models.small_clip import SmallCLIPConfig
from retriever.wording import counted
from training.augment import ROOM, SLIGHT, resized, vary
from training.config import TrainingConfig
from training.encoder_data import EncoderData, read_entities
from training.images import ImageLoader, StoredImages, load_images
from training.loop import BETTER_BY, train
from training.questions import is_held_out
from training.record import Provenance, TrainingRecord

logger = logging.getLogger(__name__)

RUN = "encoder-run"  # folder under `out` with the curve, the checkpoint and the images
IMAGES, TEXTS, MAIN = 112, 144, 64  # per batch: images, summaries, main images to find
LEARNING_RATE = 1e-3
MOST_QUERIES, MOST_KEYS = 1000, 50_000
"""Most held-out images, and most entities to search for them; a whole large knowledge base would not fit."""


def train_encoder(
    encoder: Path,
    data: EncoderData,
    out: Path,
    config: TrainingConfig = TrainingConfig(),  # noqa: B008  frozen
    *,
    provenance: Provenance = Provenance(),  # noqa: B008  frozen
    progress: bool = True,
) -> Path:
    """Adapts an encoder to a knowledge base; returns its folder, `out/encoder`. A killed run resumes.

    The weights of the best validation are kept, or the last ones if no labeled images are held out.

    Args:
        encoder: Folder of the encoder to start from (a `SmallCLIP`).
        data: Knowledge base and labeled images.
        out: Folder for the encoder and the run (curve, checkpoint, images).
        config: Limits, seed and device; `validation_share` is the share of the labeled images.
        provenance: Where model and code come from, for the training record.
        progress: Whether to show progress bars.

    Raises:
        ValueError: The encoder is not a `SmallCLIP`, no entity has an image, or none of the labeled entities is in
            the knowledge base.
    """
    model = ClipEncoder.load(encoder, config.device)
    if not isinstance(model.model.config, SmallCLIPConfig):
        raise ValueError(
            f"{encoder}: a {model.model.config.model_type} model cannot be adapted; start from a small_clip model"
        )
    summaries, main, row_of = read_entities(data)
    training: list[tuple[ImageLoader, int]] = []
    validation: list[tuple[ImageLoader, int]] = []
    read = partial(load_query_image, trim_borders=data.trim_borders)
    for image in _labeled(data, row_of):
        held_out = is_held_out(image.image_id, config.validation_share, config.seed)
        loader = ImageLoader(str(image.path), read)
        (validation if held_out else training).append((loader, row_of[image.entity_id]))
    rng = random.Random(config.seed)
    validation = rng.sample(validation, MOST_QUERIES) if len(validation) > MOST_QUERIES else validation
    counts = counted(len(main), "main image"), counted(len(training), "labeled image")
    logger.info("%s, %s, %d held out", *counts, len(validation))

    side = round(model.pixels.size * ROOM)
    rows = [*main, *(row for _, row in training)]
    loaders = [*main.values(), *(load for load, _ in [*training, *validation])]
    read_as = {"trim_borders": data.trim_borders}
    images = load_images(loaders, side, out / RUN / "images.npy", progress, read_as)
    batch_of = _Batches(rows, len(main), len(summaries), config.seed)
    tokens = model.tokenize(summaries)
    network = model.model.to(memory_format=torch.channels_last)
    device = network.device

    def loss_of(step: int, part: int) -> Tensor:
        chosen, texts, generator = batch_of(step)
        views = vary(images[chosen], model.pixels.size, generator)
        owners = torch.tensor([rows[i] for i in chosen.tolist()])
        shown = [row for row in dict.fromkeys(owners.tolist()) if row in batch_of.main_at][:MAIN]
        pixels = views
        if shown:
            keys = vary(images[[batch_of.main_at[row] for row in shown]], model.pixels.size, generator, SLIGHT)
            pixels = torch.cat([views, keys])
        pixels = model.pixels.normalize(pixels.to(device))
        with autocast(device.type, fastest_dtype(device.type)):
            vectors = network.get_image_features(pixels)
            words = network.get_text_features(tokens["input_ids"][texts], tokens["attention_mask"][texts])
        scale = network.logit_scale.exp().clamp(max=100)
        by_text = _search_loss(vectors[: len(views)], owners, words, texts.tolist(), scale)
        return by_text + _search_loss(vectors[: len(views)], owners, vectors[len(views) :], shown, scale)

    optimization = config.optimization(LEARNING_RATE)
    metrics = train(
        network,
        loss_of,
        out=out / RUN,
        optimization=optimization,
        validate=_validation(model, summaries, images, list(main), [row for _, row in validation], rng)
        if validation
        else None,
        validate_every=config.validate_every,
        save_every=config.validate_every,
        better_by=BETTER_BY,
        settings={"start": model.fingerprint, "images": len(rows), "entities": len(summaries), **read_as},
        progress=progress,
    )
    model.save(out / "encoder")
    TrainingRecord(
        kind="encoder",
        base=provenance.base,
        data={
            "entities": len(summaries),
            "main images": len(main),
            "labeled images trained on": len(training),
            "labeled images validated on": len(validation),
        },
        settings=asdict(optimization),
        metrics=metrics,
        commit=provenance.commit,
    ).save(out / "encoder")
    return out / "encoder"


def _labeled(data: EncoderData, row_of: Mapping[str, int]) -> list[LabeledImage]:
    """Returns the labeled images of entities in the knowledge base, and logs how many others there are.

    Raises:
        ValueError: There are labeled images, but none can be used.
    """
    named = with_known_entities(data.labeled, row_of)
    labeled = [image for image in named if image.entity_id in row_of]
    if len(labeled) < len(data.labeled):
        first = min({image.entity_id for image in named} - row_of.keys())
        reason = f"{data.kb} has no entity that they show, the first is {first!r}"
        if not labeled:
            raise ValueError(f"none of the labeled images can be used: {reason}; is it the right file?")
        left_out = len(data.labeled) - len(labeled)
        logger.warning("%d of %d labeled images left out: %s", left_out, len(data.labeled), reason)
    return labeled


def _search_loss(images: Tensor, owners: Tensor, keys: Tensor, rows: list[int], scale: Tensor) -> Tensor:
    """Returns the loss of finding the key of each image's entity, a scalar; ignores images of entities without a key.

    Args:
        images: Vectors [B, D], not normalized.
        owners: The entity of each image, int64 [B].
        keys: Vectors [K, D], not normalized.
        rows: The entity of each key, all distinct.
        scale: Factor for the cosines.
    """
    column = {row: number for number, row in enumerate(rows)}
    asked = [number for number, row in enumerate(owners.tolist()) if row in column]
    if not asked:
        return images.sum() * 0
    target = torch.tensor([column[row] for row in owners[asked].tolist()], device=images.device)
    found = functional.normalize(images[asked].float(), dim=-1) @ functional.normalize(keys.float(), dim=-1).T
    return functional.cross_entropy(scale * found, target, label_smoothing=0.05)


class _Batches:
    """Image and summary rows of a step, which depend only on (seed, step).

    An image is drawn with a weight of 1 / sqrt(number of images of its entity), halfway between equal weights for
    images and equal weights for entities.
    """

    def __init__(self, rows: Sequence[int], main_images: int, entities: int, seed: int):
        self.seed, self.entities = seed, entities
        self.main_at = {row: number for number, row in enumerate(rows[:main_images])}
        count = torch.bincount(torch.tensor(rows), minlength=entities).float()
        self.owners = torch.tensor(rows)
        self.weights = count[self.owners] ** -0.5

    def __call__(self, step: int) -> tuple[Tensor, Tensor, torch.Generator]:
        """Returns the batch's images, its summaries, and a generator for all other randomness."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        chosen = torch.multinomial(self.weights, min(IMAGES, len(self.weights)), generator=generator)
        return chosen, self._texts(chosen, generator), generator

    def _texts(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        owners = self.owners[chosen].unique()
        others = torch.randperm(self.entities, generator=generator)
        others = others[~torch.isin(others, owners)][: max(0, TEXTS - len(owners))]
        return torch.cat([owners, others])


def _validation(
    model: ClipEncoder,
    summaries: list[str],
    images: StoredImages,
    rows: list[int],
    held_out: list[int],
    rng: random.Random,
) -> Callable[[], dict[str, float]]:
    """Returns a function that computes Recall@1 and loss of the held-out images for both kinds of keys.

    With more than `MOST_KEYS` entities, the keys are those of the held-out images' entities and of `MOST_KEYS` others.

    Args:
        model: The encoder.
        summaries: The summaries of all entities.
        images: Main images first, held-out images last.
        rows: The entity of each main image.
        held_out: The entity of each held-out image.
        rng: Random generator for drawing entities.
    """
    entities = list(range(len(summaries)))
    if len(entities) > MOST_KEYS:
        entities = sorted({*held_out, *rng.sample(entities, MOST_KEYS)})
        summaries = [summaries[entity] for entity in entities]
    drawn = set(entities)
    main = [number for number, row in enumerate(rows) if row in drawn]
    rows = [rows[number] for number in main]
    shown = [*range(len(images) - len(held_out), len(images)), *main]
    parts = [shown[start : start + model.batch_size] for start in range(0, len(shown), model.batch_size)]
    gold, described, keyed = torch.tensor(held_out), torch.tensor(entities), torch.tensor(rows)

    def validate() -> dict[str, float]:
        texts = model.encode_texts(summaries).cpu()
        vectors = functional.normalize(torch.cat([encoded(images[part]) for part in parts]), dim=-1)
        queries, keys = vectors.split([len(gold), len(keyed)])
        by_text, by_image = described[(queries @ texts.T).argmax(1)], keyed[(queries @ keys.T).argmax(1)]
        recalls = [float((found == gold).float().mean()) for found in (by_text, by_image)]
        scale = model.model.logit_scale.exp().clamp(max=100).cpu()
        loss = _search_loss(queries, gold, texts, entities, scale) + _search_loss(queries, gold, keys, rows, scale)
        return {
            "recall@1": sum(recalls) / 2,  # an index may search either, or both
            "recall@1_by_summary": recalls[0],
            "recall@1_by_image": recalls[1],
            "validation_loss": float(loss),
        }

    def encoded(part: Tensor) -> Tensor:
        small = resized(part, model.pixels.size)
        vectors: Tensor = model.model.get_image_features(model.pixels.normalize(small.to(model.model.device)))
        return vectors.float().cpu()

    return validate
