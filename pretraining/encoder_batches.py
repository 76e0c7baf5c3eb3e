"""Step 1's training batches (flags with their descriptions, designs, stickers), their loss, and the validation."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from pretraining.camera import Camera, resized
from pretraining.demo.describe import describe
from pretraining.demo.draw import draw
from pretraining.demo.flags import load_flags
from pretraining.demo.photo import photograph
from pretraining.designs import DesignBatch, DesignBatches, joined
from pretraining.flag_batches import FlagBatch, FlagBatches
from pretraining.generate import random_flag, similar_flag
from pretraining.pair_losses import clip_loss, same_pairs
from pretraining.stickers import StickerBatches
from retriever.models.encoder import ClipEncoder
from retriever.models.precision import autocast, fastest_dtype

KNOWN, MADE_UP, CLEAN = 28, 52, 40  # flags per batch: of the knowledge base, random, and with a clean drawing as well
DESIGNS, STICKERS = 48, 60  # per batch
CUT_OUT = 0.6  # share of designs on another ground in the photograph
SMALL = 0.35  # share of photographs in which the design or sticker fills less of the frame

Batch = tuple[FlagBatch, DesignBatch]


class EncoderBatches(Dataset[Batch]):
    """Flags and designs by step; each batch depends only on (seed, step).

    Args:
        size: Side of an image in pixels.
        summaries: Summaries of the articles, by country code.
        seed: Seed of everything random.
    """

    def __init__(self, size: int, summaries: dict[str, str], seed: int = 0):
        self.size, self.summaries, self.seed = size, summaries, seed

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of `step`."""
        flags, designs, stickers = self._sources
        return flags(step, CLEAN), joined(designs(step), stickers(step))

    @functools.cached_property
    def _sources(self) -> tuple[FlagBatches, DesignBatches, StickerBatches]:
        """The generators, created in the process that uses them because their scenes take 90 MB."""
        camera = Camera(self.size, self.seed)
        return (
            FlagBatches(camera, KNOWN, MADE_UP, self.summaries, self.seed),
            DesignBatches(camera, DESIGNS, self.seed, cut_out=CUT_OUT, small=SMALL),
            StickerBatches(camera, STICKERS, self.seed, small=SMALL),
        )


VALIDATED = 400
"""Number of flags, designs and stickers per validation."""


def encoder_loss(encoder: ClipEncoder, batch: Batch, size: int) -> Tensor:
    """Returns CLIP's loss over each pair of photographs, clean images and texts, a scalar.

    Args:
        encoder: An encoder with a `SmallCLIP`.
        batch: The batch; its images may be larger than the encoder's.
        size: Side in pixels that images are resized to.
    """
    flags, designs = batch
    shown = [flags.photographs, flags.drawings, designs.photographs, designs.keys]
    with autocast("cpu", fastest_dtype("cpu")):
        images = image_vectors(encoder, torch.cat(shown), size).float()
        words = encoder.model.get_text_features(**encoder.tokenize(flags.texts)).float()
    flag_photos, flag_drawings, photos, keys = images.split([len(part) for part in shown])
    scale = encoder.model.logit_scale.exp().clamp(max=100)
    same = same_pairs(flags.looks)
    clean = len(flag_drawings)
    # Photographs against clean images, flags and designs together.
    unlike = torch.block_diag(same[:clean, :clean], designs.alike)
    left = torch.cat([flag_photos[:clean], photos])
    right = torch.cat([flag_drawings, keys])
    return (
        clip_loss(flag_photos, words, scale, same)
        + clip_loss(left, right, scale, unlike)
        + 0.5 * clip_loss(flag_drawings, words[:clean], scale, same[:clean, :clean])
    )


def image_vectors(encoder: ClipEncoder, images: Tensor, size: int) -> Tensor:
    """Encodes images, float32 [B, 3, S, S] in 0..1, at `size` pixels instead of the encoder's own size."""
    vectors: Tensor = encoder.model.get_image_features(encoder.pixels.normalize(resized(images, size)))
    return vectors


def encoder_validation(encoder: ClipEncoder, texts: dict[str, str]) -> Callable[[], dict[str, float]]:
    """Returns a function that measures Recall@1 on new photographs of known flags, unknown flags and designs.

    Unknown ones come as near twins. Flags are retrieved by their texts and by their drawings, designs by clean images.
    """
    rng = random.Random("validation")
    flags = load_flags()
    strange = [random_flag(rng) for _ in range(VALIDATED)]
    for number in range(1, VALIDATED, 2):
        strange[number] = similar_flag(strange[number - 1], rng)
    drawings = {"known": [draw(flag) for flag in flags.values()], "unknown": [draw(flag) for flag in strange]}
    photos = {name: [photograph(image, rng, (160, 128)) for image in images] for name, images in drawings.items()}
    words = {"known": [texts[code] for code in flags], "unknown": [describe(flag, rng) for flag in strange]}
    camera = Camera(encoder.pixels.size, -1, scenes=300)
    designs = DesignBatches(camera, VALIDATED, -1, photographed=0.0)(0)
    stickers = StickerBatches(camera, VALIDATED, -1)(0)

    def recall(queries: Tensor, candidates: Tensor) -> float:
        scores = functional.normalize(queries, dim=-1) @ functional.normalize(candidates, dim=-1).T
        return float((scores.argmax(1) == torch.arange(len(scores))).float().mean())

    def vectors(images: Tensor) -> Tensor:
        return torch.cat([encoder.model.get_image_features(encoder.pixels.normalize(p)) for p in images.split(64)])

    def validate() -> dict[str, float]:
        metrics = {
            "designs": recall(vectors(designs.photographs), vectors(designs.keys)),
            "stickers": recall(vectors(stickers.photographs), vectors(stickers.keys)),
        }
        for name in photos:
            taken = encoder.encode_images(photos[name])
            metrics[f"{name}_by_text"] = recall(taken, encoder.encode_texts(words[name]))
            metrics[f"{name}_by_image"] = recall(taken, encoder.encode_images(drawings[name]))
        return metrics

    return validate
