"""Adapts step 1 to a knowledge base: its main images and labeled pictures against its summaries.

Every batch pairs pictures with the summaries of their entities among the summaries of others, and some pictures with
their entity's main image, so that the tower serves step 2 as well (equation 2's encoders, trained contrastively).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from indexes.formats import read_knowledge_base
from indexes.summarize import Summarizer
from retriever.images import load_image
from retriever.models.encoder import ClipEncoder
from retriever.models.small_clip import SmallCLIPConfig
from training.augment import vary
from training.clip_loss import clip_loss
from training.images import Load, load_pictures, main_images
from training.loop import train

logger = logging.getLogger(__name__)

PICTURES, TEXTS, CLEAN = 112, 144, 32  # a batch: pictures, summaries, pictures with a clean main image beside them
SAVE_EVERY = 100
ROOM = 1.25  # pictures are kept this much larger than the model's input, so that a cut loses little


def train_encoder(
    encoder: Path,
    kb: Path,
    images: Path | None,
    out: Path,
    *,
    summarizer: Summarizer,
    labeled: Sequence[tuple[Path, str]] = (),
    kb_format: str | None = None,
    steps: int = 100_000,
    minutes: float | None = 20,
    seed: int = 0,
    learning_rate: float = 1e-3,
    validation_share: float = 0.05,
    progress: bool = True,
) -> Path:
    """Returns the folder of the adapted encoder, `out/encoder`; goes on where an interrupted run stopped.

    Args:
        encoder: Folder of the encoder to start from (a `SmallCLIP`).
        kb: The knowledge base.
        images: Its pictures, a folder or a ZIM file; `None` where the knowledge base holds them itself.
        out: Gets the encoder and the run (curve, checkpoint).
        summarizer: Writes the summaries that step 1 will search.
        labeled: Pictures beside the main images, each with the id of the entity that it shows.
        kb_format: See `indexes.formats`; guessed when `None`.
        steps: Most steps.
        minutes: Most wall time.
        seed: Of batches, augmentation and the validation split.
        learning_rate: Highest rate.
        validation_share: Part of `labeled` that is only validated on.
        progress: Whether to show bars.

    Raises:
        ValueError: The encoder is no `SmallCLIP`, no entity has a picture, or a labeled entity is not in the
            knowledge base.
    """
    model = ClipEncoder.load(encoder)
    if not isinstance(model.model.config, SmallCLIPConfig):
        raise ValueError(
            f"{encoder}: a {model.model.config.model_type} model cannot be adapted; start from a small_clip one"
        )
    entities = list(read_knowledge_base(kb, kb_format))
    row_of = {entity.id: row for row, entity in enumerate(entities)}
    unknown = sorted({name for _, name in labeled} - row_of.keys())
    if unknown:
        raise ValueError(f"{kb}: has no entity {unknown[0]!r}, which a labeled picture shows ({len(unknown)} such)")
    summaries = summarizer.summarize(entities)
    main = main_images(images, kb, kb_format, dict(enumerate(entities)))
    shown = [(partial(load_image, path), row_of[name]) for path, name in labeled]
    split = random.Random(f"validation {seed}")
    held = [split.random() < validation_share for _ in labeled]
    training = [picture for picture, out_of in zip(shown, held, strict=True) if not out_of]
    validation = [picture for picture, out_of in zip(shown, held, strict=True) if out_of]
    logger.info("%d main images, %d labeled pictures, %d held out", len(main), len(training), len(validation))

    side = round(model.pixels.size * ROOM)
    rows = [*main, *(row for _, row in training)]
    pictures = load_pictures([*main.values(), *(load for load, _ in training)], side, progress)
    batch_of = _Batches(rows, len(main), len(entities), seed)
    tokens = model.tokenize(summaries)
    network = model.model.to(memory_format=torch.channels_last)

    def loss_of(step: int) -> Tensor:
        chosen, texts, generator = batch_of(step)
        views = vary(pictures[chosen], model.pixels.size, generator)
        owners = torch.tensor([rows[i] for i in chosen.tolist()])
        clean, clean_rows = _clean_images(owners, batch_of.main_at, pictures, model.pixels.size)
        pixels = model.pixels.normalize(torch.cat([views, clean]))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            vectors = network.get_image_features(pixels)
            words = network.get_text_features(tokens["input_ids"][texts], tokens["attention_mask"][texts])
        views_v, clean_v = vectors[: len(views)], vectors[len(views) :]
        scale = network.logit_scale.exp().clamp(max=100)
        column = {row: number for number, row in enumerate(texts.tolist())}
        target = torch.tensor([column[row] for row in owners.tolist()])
        loss = _classify(views_v, words, target, scale)
        if len(clean):
            first = torch.tensor([owners.tolist().index(row) for row in clean_rows])
            loss = loss + 0.5 * clip_loss(views_v[first], clean_v, scale)
        return loss

    train(
        network,
        loss_of,
        out=out / "encoder-run",
        steps=steps,
        minutes=minutes,
        learning_rate=learning_rate,
        validate=_validation(model, summaries, validation, side, progress) if validation else None,
        validate_every=SAVE_EVERY,
        save_every=SAVE_EVERY,
        seed=seed,
        settings={"start": model.fingerprint, "pictures": len(rows), "entities": len(entities)},
        progress=progress,
    )
    model.save(out / "encoder")
    return out / "encoder"


def _classify(pictures: Tensor, texts: Tensor, target: Tensor, scale: Tensor) -> Tensor:
    logits = scale * functional.normalize(pictures.float(), dim=-1) @ functional.normalize(texts.float(), dim=-1).T
    return functional.cross_entropy(logits, target, label_smoothing=0.05)


def _clean_images(owners: Tensor, main_at: dict[int, int], pictures: Tensor, size: int) -> tuple[Tensor, list[int]]:
    """The clean main images of the first entities in the batch that have one, and those entities."""
    rows = [row for row in dict.fromkeys(owners.tolist()) if row in main_at][:CLEAN]
    picked = pictures[[main_at[row] for row in rows]].float() / 255
    return functional.interpolate(picked, (size, size), mode="bilinear", antialias=True), rows


class _Batches:
    """Picture and summary rows of a step, from (seed, step) alone.

    Entities are drawn in proportion to the root of their number of pictures: between one picture, one vote, and one
    entity, one vote.
    """

    def __init__(self, rows: Sequence[int], main_images: int, entities: int, seed: int):
        self.seed, self.entities = seed, entities
        self.main_at = {row: number for number, row in enumerate(rows[:main_images])}
        count = torch.bincount(torch.tensor(rows), minlength=entities).float()
        self.owners = torch.tensor(rows)
        self.weights = count[self.owners] ** -0.5

    def __call__(self, step: int) -> tuple[Tensor, Tensor, torch.Generator]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        chosen = torch.multinomial(self.weights, min(PICTURES, len(self.weights)), generator=generator)
        return chosen, self._texts(chosen, generator), generator

    def _texts(self, chosen: Tensor, generator: torch.Generator) -> Tensor:
        owners = self.owners[chosen].unique()
        others = torch.randperm(self.entities, generator=generator)
        others = others[~torch.isin(others, owners)][: max(0, TEXTS - len(owners))]
        return torch.cat([owners, others])


def _validation(
    model: ClipEncoder, summaries: list[str], held_out: Sequence[tuple[Load, int]], side: int, progress: bool
) -> Callable[[], dict[str, float]]:
    pictures = load_pictures([load for load, _ in held_out], side, progress)
    small = functional.interpolate(pictures.float() / 255, (model.pixels.size,) * 2, mode="bilinear", antialias=True)
    pixels = model.pixels.normalize(small)
    gold = torch.tensor([row for _, row in held_out])

    def validate() -> dict[str, float]:
        texts = model.encode_texts(summaries)
        vectors = torch.cat([model.model.get_image_features(part) for part in pixels.split(model.batch_size)])
        scores = functional.normalize(vectors.float(), dim=-1) @ texts.T
        rank = (scores > scores.gather(1, gold[:, None])).sum(1)
        return {f"recall@{k}": float((rank < k).float().mean()) for k in (1, 20)}

    return validate
