"""Adapts step 1 to the entities of an index: trains it on main images and labeled images against the summaries.

In every batch, images are contrasted with the summaries of their own and other entities (equation 2's encoders), and
with the main images of their own and other entities: step 1 may search both, and step 2 uses the same image tower.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from retriever.borders import RULE, load_query_image
from retriever.gpu import to_device
from retriever.identity import Items, agree, files_as_items
from retriever.models.encoder import ClipEncoder
from retriever.models.photo_tower import PhotoTower
from retriever.models.precision import autocast, fastest_dtype
from retriever.models.small_clip import SmallCLIPConfig
from retriever.wording import counted
from training.attention import short_attention
from training.augment import ROOM, resized
from training.batch import Feeder, Targets
from training.checkpoint import BEST_NAME, CHECKPOINT_NAME
from training.config import TrainingConfig
from training.encoder_data import (
    EncoderBatches,
    EncoderData,
    Entities,
    first_of_each,
    known_labels,
    read_entities,
    targets_among,
)
from training.images import ImageLoader, StoredImages, load_images
from training.loop import BETTER_BY, train
from training.memory import naming_memory_settings
from training.photo_projection import MOST, SHRINKAGE, VIEWS, refit
from training.questions import is_held_out
from training.record import Provenance, TrainingRecord, remarks_on

logger = logging.getLogger(__name__)

RUN = "encoder-run"  # folder under `out` with the curve, the checkpoint and the images
LEARNING_RATE = 1e-3
STEPS = 20
"""Steps, times the square root of the number of images to train on."""
MOST_QUERIES, MOST_KEYS = 1000, 50_000
"""Most held-out images, and most entities to search for them; a whole large knowledge base would not fit."""
_LESS_MEMORY = "end other programs that use the GPU, or train on the CPU with --set device=cpu"


def train_encoder(
    encoder: Path,
    data: EncoderData,
    out: Path,
    config: TrainingConfig = TrainingConfig(),  # noqa: B008  frozen
    *,
    provenance: Provenance = Provenance(),  # noqa: B008  frozen
    overwrite: bool = False,
) -> Path:
    """Adapts an encoder to the entities of an index; returns its folder, `out/encoder`. A killed run resumes.

    The weights of the best validation are kept, or the last ones if no labeled images are held out.

    Args:
        encoder: Folder of the encoder to start from (a `SmallCLIP`).
        data: Articles, summaries and labeled images.
        out: Folder for the encoder and the run (curve, checkpoint, images).
        config: Limits, seed and device; `validation_share` is the share of the labeled images.
        provenance: Where model and code come from, for the training record.
        overwrite: Whether to replace a run with other inputs.

    Raises:
        ValueError: The encoder is not a `SmallCLIP`, no entity has an image, none of the labeled entities is in
            the index, or `out` holds a run with other inputs.
        FloatingPointError: The loss is not finite.
        MemoryError: The device runs out of memory; the message says what to do.
    """
    model = ClipEncoder.load(encoder, config.device)
    if not isinstance(model.model.config, SmallCLIPConfig):
        raise ValueError(
            f"{encoder}: a {model.model.config.model_type} model cannot be adapted; start from a small_clip model"
        )
    precision = fastest_dtype(model.model.device.type)
    photos, model.photos = model.photos, None  # a frozen network, whose projection is fitted at the end
    photos = photos and PhotoTower(model.model, config.device, precision)  # as it is served
    entities = read_entities(data)
    summaries, main, original = entities.summaries, entities.main, entities.original.tolist()
    training: list[tuple[ImageLoader, int]] = []
    validation: list[tuple[ImageLoader, list[int]]] = []
    read = partial(load_query_image, trim_borders=data.trim_borders)
    labeled = known_labels(data, entities)
    for label in labeled:
        loader = ImageLoader(str(label.path), read)
        if is_held_out(data.contents.get(label.image_id, label.image_id), config.validation_share, config.seed):
            validation.append((loader, label.rows))
        else:
            training += [(loader, row) for row in label.rows]
    rng = random.Random(config.seed)
    validation = rng.sample(validation, MOST_QUERIES) if len(validation) > MOST_QUERIES else validation
    counts = counted(len(main), "main image"), counted(len(training), "labeled image")
    logger.info("%s, %s, %d held out", *counts, len(validation))
    if entities.copies:
        what = "have the text of another entity's article, and are trained on as that entity"
        logger.warning("%d of %d entities %s", entities.copies, len(summaries), what)

    side = round(model.pixels.size * ROOM)
    rows = [*(original[row] for row in main), *(row for _, row in training)]
    loaders = [*main.values(), *(load for load, _ in [*training, *validation])]
    ids = entities.ids
    optimization = config.optimization(LEARNING_RATE, steps_for(len(rows)))
    inputs = {
        "start": model.fingerprint,
        "summaries": Items(zip(ids, summaries, strict=True), "entity", "another summary"),
        "articles": Items(zip(ids, entities.articles, strict=True), "article", "another text"),
        "labels": Items(
            ((label.image_id, [ids[row] for row in label.rows]) for label in labeled), "image", "another entity"
        ),
        "held out": "by content" if data.contents else "by name",
        "labeled images": files_as_items(((label.image_id, label.path) for label in labeled), "image"),
        "main images": files_as_items(
            ((ids[row], load.content(load.name)) for row, load in main.items()), "main image"
        ),
        "trim_borders": data.trim_borders and RULE,
        "validation_share": config.validation_share,
        "validate_every": config.validate_every,
        "precision": str(precision).removeprefix("torch."),
        **optimization.agreed,
        **({"photos": [MOST, VIEWS, SHRINKAGE]} if photos else {}),
    }
    run = out / RUN
    work = [run / name for name in ("images.npy", "curve.csv", CHECKPOINT_NAME, BEST_NAME)]
    agree(run / "inputs.json", inputs, work=work, overwrite=overwrite)
    images = load_images(loaders, side, run / "images.npy")
    tokens = {name: tensor.cpu() for name, tensor in model.tokenize(summaries).items()}
    batches = EncoderBatches(
        images,
        rows,
        len(main),
        ids=tokens["input_ids"],
        mask=tokens["attention_mask"],
        entities=torch.from_numpy(np.unique(entities.original)),
        pictured=entities.pictured,
        size=model.pixels.size,
        seed=config.seed,
    )
    network = model.model.to(memory_format=torch.channels_last)
    device: torch.device = network.device
    feeder = Feeder(batches, device)

    def loss_of(step: int, part: int) -> Tensor:
        batch = feeder(step)
        with autocast(device.type, precision), short_attention(device.type, precision):
            vectors = network.get_image_features(model.pixels.normalize(batch.pixels))
            words = network.get_text_features(batch.ids, batch.mask)
        scale = network.logit_scale.exp().clamp(max=100)
        searching, keys = vectors[: batch.searching], vectors[batch.searching :]
        by_text = _search_loss(searching, words, batch.summary, scale)
        return by_text + _search_loss(searching, keys, batch.main, scale)

    held_out_rows = [shown for _, shown in validation]
    validate = _validation(model, entities, images, rows[: len(main)], held_out_rows, rng) if validation else None
    with closing(feeder), naming_memory_settings(_LESS_MEMORY):
        metrics = train(
            network,
            loss_of,
            out=run,
            optimization=optimization,
            validate=validate,
            validate_every=config.validate_every,
            save_every=config.validate_every,
            better_by=BETTER_BY,
        )
    if photos:
        metrics |= _refit_photos(model, photos, images, rows, len(main), held_out_rows, config.seed)
    remarks = remarks_on(metrics, optimization, BETTER_BY)
    for remark in remarks:
        logger.warning("%s: %s", out, remark)
    model.save(out / "encoder")
    TrainingRecord(
        kind="encoder",
        base=provenance.base,
        data={
            "entities": len(summaries),
            "entities with the text of another": entities.copies,
            "main images": len(main),
            "labeled images trained on": len(training),
            "labeled images validated on": len(validation),
        },
        settings={
            **asdict(optimization),
            **{name: inputs[name] for name in ("precision", "trim_borders", "validate_every", "validation_share")},
        },
        metrics=metrics,
        remarks=remarks,
        commit=provenance.commit,
    ).save(out / "encoder")
    return out / "encoder"


def _refit_photos(
    model: ClipEncoder,
    photos: PhotoTower,
    images: StoredImages,
    rows: list[int],
    main: int,
    held_out: list[list[int]],
    seed: int,
) -> dict[str, float]:
    """Fits the projection of the photographs' network to the images, if it then finds more; returns its metrics."""
    keys = list(first_of_each(rows[:main]).values())
    keys = sorted(random.Random(seed).sample(keys, MOST)) if len(keys) > MOST else keys
    fitted, metrics = refit(photos, images, rows, keys, held_out, seed)
    if fitted is not None:
        model.model.photo_mean.copy_(fitted.mean)
        model.model.photo_projection.copy_(fitted.matrix)
    logger.info("photographs: %s", "projection fitted" if fitted else "projection kept")
    return {f"photos_recall@1_{when}": value for when, value in metrics.items()}


def steps_for(images: int) -> int:
    """Returns the number of steps for a number of images to train on.

    It grows with the square root: 980 steps are 46 passes over Atlas's 2,411 images, for 200,000 images 8,900 steps are
    five passes.
    """
    return math.ceil(STEPS * math.sqrt(images))


def _search_loss(images: Tensor, keys: Tensor, targets: Targets, scale: Tensor) -> Tensor:
    """Returns the loss of finding the key of each image's entity, a scalar; ignores images of entities without a key.

    Args:
        images: Vectors [B, D], not normalized.
        keys: Vectors [K, D], not normalized.
        targets: What the images should find.
        scale: Factor for the cosines.
    """
    if not len(targets):
        return images.sum() * 0
    asked = functional.normalize(images[targets.queries].float(), dim=-1)
    found = asked @ functional.normalize(keys.float(), dim=-1).T
    return functional.cross_entropy(scale * found, targets.keys, label_smoothing=0.05)


def _validation(
    model: ClipEncoder,
    knowledge_base: Entities,
    images: StoredImages,
    rows: list[int],
    held_out: list[list[int]],
    rng: random.Random,
) -> Callable[[], dict[str, float]]:
    """Returns a function that computes Recall@1 and loss of the held-out images for both kinds of keys.

    With more than `MOST_KEYS` entities, the keys are those of the held-out images' entities and of `MOST_KEYS` others.

    Args:
        model: The encoder.
        knowledge_base: The summaries of all entities, and which of them are copies.
        images: Main images first, held-out images last.
        rows: The entity of each main image.
        held_out: The entities that each held-out image shows; it should find one of them.
        rng: Random generator for drawing entities.
    """
    entities = np.unique(knowledge_base.original).tolist()
    if len(entities) > MOST_KEYS:
        entities = sorted({*chain.from_iterable(held_out), *rng.sample(entities, MOST_KEYS)})
    summaries = [knowledge_base.summaries[entity] for entity in entities]
    drawn = set(entities)
    main = [number for row, number in first_of_each(rows).items() if row in drawn]
    rows = [rows[number] for number in main]
    shown = [*range(len(images) - len(held_out), len(images)), *main]
    parts = [shown[start : start + model.batch_size] for start in range(0, len(shown), model.batch_size)]
    described, keyed = torch.tensor(entities), torch.tensor(rows)
    gold = pad_sequence([torch.tensor(shown) for shown in held_out], batch_first=True, padding_value=-1)
    first = [shown[0] for shown in held_out]
    summary, main_image = targets_among(entities, first), targets_among(rows, first)

    def validate() -> dict[str, float]:
        texts = model.encode_texts(summaries).cpu()
        vectors = functional.normalize(torch.cat([encoded(images[part]) for part in parts]).cpu(), dim=-1)
        queries, keys = vectors.split([len(gold), len(keyed)])
        by_text, by_image = described[(queries @ texts.T).argmax(1)], keyed[(queries @ keys.T).argmax(1)]
        recalls = [float((found[:, None] == gold).any(1).float().mean()) for found in (by_text, by_image)]
        scale = model.model.logit_scale.exp().clamp(max=100).cpu()
        loss = _search_loss(queries, texts, summary, scale) + _search_loss(queries, keys, main_image, scale)
        return {
            "recall@1": sum(recalls) / 2,  # an index may search either, or both
            "recall@1_by_summary": recalls[0],
            "recall@1_by_image": recalls[1],
            "validation_loss": float(loss),
        }

    def encoded(part: Tensor) -> Tensor:
        small = resized(to_device(part, model.model.device), model.pixels.size)
        vectors: Tensor = model.model.get_image_features(model.pixels.normalize(small))
        return vectors.float()

    return validate
