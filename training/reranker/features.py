"""Stores the images for step 2's training in shards on disk: as features of a frozen image tower, or as pixels."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from indexes.progress import progress_bar
from retriever.borders import RULE
from retriever.files import replacing, write_whole
from retriever.gpu import to_device
from retriever.images import ImageError
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from training.processes import Processes
from training.reranker.image_store import FeatureStore, ImageTable

logger = logging.getLogger(__name__)

KEY_NAME = "features.json"
BATCH = 32
"""Images per forward pass of the tower."""

Forward = Callable[[Tensor], Tensor]
"""Maps views, uint8 [N, 3, size, size], to the values to store."""


def compute_features(
    fusion: QFormerFusion,
    images: ImageTable,
    views: NDArray[np.int64],
    folder: Path,
    *,
    seed: int,
    workers: int = 0,
    processes: Processes,
) -> FeatureStore:
    """Computes the features of all images with the tower of `fusion`, which must be in eval mode.

    Every process computes its share of the shards. A killed run resumes with the next shard; features of another
    tower, other images or another seed are recomputed.

    Args:
        fusion: The encoder whose tower is used.
        images: The images.
        views: Number of views per image, [I].
        folder: Folder of the shards.
        seed: Seed of the augmented views.
        workers: Processes that decode images; 0 decodes in this one.
        processes: The processes of the training.

    Raises:
        ValueError: There is not enough disk space.
    """
    with torch.inference_mode():
        pixels = fusion.pixels([Image.new("RGB", (8, 8))]).to(fusion.query_tokens.device)
        shape = fusion.vision_features(pixels).shape[1:]
    store = FeatureStore(folder, views, (shape[0], shape[1]))
    key = {"tower": fusion.fingerprint, "views": hashlib.sha256(views.tobytes()).hexdigest(), "seed": seed}
    decoder = _Views(images, views, fusion.pixels, seed)
    _complete(store, key, decoder, partial(_forward, fusion), workers, processes)
    return store


def store_pixels(
    images: ImageTable,
    side: int,
    folder: Path,
    *,
    workers: int = 0,
    processes: Processes,
) -> FeatureStore:
    """Resizes all images to squares of `side` pixels, ignoring the aspect ratio; otherwise like `compute_features`."""
    store = FeatureStore(folder, np.ones(len(images.names), np.int64), (3, side, side))
    decoder = _Views(images, store.views, PixelPreparation(side), seed=0)
    _complete(store, {"side": side}, decoder, lambda views: views, workers, processes)
    return store


def _complete(
    store: FeatureStore,
    key: dict[str, object],
    decoder: _Views,
    forward: Forward,
    workers: int,
    processes: Processes,
) -> None:
    """Writes the missing shards; each process writes its share."""
    if processes.first:
        images = decoder.images
        _claim(store, {**key, "images": images.contents().digest, "trim_borders": images.trim_borders and RULE})
    processes.wait()
    shards = store.shards()
    mine = [shard for shard in range(len(shards)) if shard % processes.count == processes.rank]
    waiting = [shard for shard in mine if not store.path(shard).is_file()]
    if waiting:
        _compute(forward, decoder, store, waiting, workers, processes.first)
    processes.wait()


def _claim(store: FeatureStore, key: dict[str, object]) -> None:
    """Prepares the folder for features with this key."""
    path = store.folder / KEY_NAME
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")) != key:
        logger.info("%s: from another tower or other images; recomputing the features", store.folder)
        shutil.rmtree(store.folder)
    store.folder.mkdir(parents=True, exist_ok=True)
    present = sum(file.stat().st_size for file in store.folder.glob("*.bin"))
    free = shutil.disk_usage(store.folder).free
    if store.nbytes - present > free:
        raise ValueError(
            f"{store.folder}: images need {store.nbytes / 2**30:.1f} GiB, "
            f"but only {(free + present) / 2**30:.1f} GiB are free; choose a larger disk with --out"
        )
    write_whole(path, json.dumps(key).encode() + b"\n")


def _compute(
    forward: Forward, decoder: _Views, store: FeatureStore, waiting: Sequence[int], workers: int, shown: bool
) -> None:
    shards = store.shards()
    batches = [
        list(shards[shard][start : start + BATCH]) for shard in waiting for start in range(0, len(shards[shard]), BATCH)
    ]
    loader: DataLoader[_Decoded] = DataLoader(
        decoder,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=list,
        multiprocessing_context="spawn" if workers else None,  # a fork would copy the locks of running threads
        pin_memory=False,
    )
    decoded = iter(loader)
    bar = progress_bar(total=sum(map(len, batches)), desc="features", unit="image", shown=shown)
    for shard in waiting:
        problems: dict[int, str] = {}
        left = len(shards[shard])
        with replacing(store.path(shard)) as temporary, temporary.open("wb") as file:
            while left:
                batch = next(decoded)
                problems |= {item.row: item.problem for item in batch if item.problem is not None}
                features = forward(torch.cat([item.views for item in batch]))
                file.write(features.view(torch.uint8).numpy().tobytes())
                left -= len(batch)
                bar.update(len(batch))
            write_whole(store.problems_path(shard), json.dumps(problems).encode() + b"\n")
    bar.close()


@torch.inference_mode()
def _forward(fusion: QFormerFusion, views: Tensor) -> Tensor:
    device = fusion.query_tokens.device
    parts = []
    for part in to_device(views, device).split(2 * BATCH):
        pixels = fusion.pixels.normalize(part.float() / 255)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            parts.append(fusion.vision_features(pixels).bfloat16())
    return torch.cat(parts).cpu()


@dataclass(frozen=True, slots=True)
class _Decoded:
    """The views of an image, uint8 [views, 3, size, size], or black ones and the problem with it."""

    row: int
    views: Tensor
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Views(Dataset[_Decoded]):
    """Decodes images, possibly in worker processes."""

    images: ImageTable
    views: NDArray[np.int64]
    pixels: PixelPreparation
    seed: int

    def __getitem__(self, row: int) -> _Decoded:
        """Returns the views of an image; those after the first depend only on its name and the seed.

        The folder of a query image is not part of its name, so that moving the data does not change the weights.
        """
        count = int(self.views[row])
        try:
            image = self.images.load(row)
        except ImageError as error:
            return _Decoded(
                row, torch.zeros(count, 3, self.pixels.size, self.pixels.size, dtype=torch.uint8), str(error)
            )
        # Every view is resized to the tower's input: more pixels would only cost time.
        image.thumbnail((4 * self.pixels.size, 4 * self.pixels.size), reducing_gap=2.0)
        name = self.images.names[row]
        if name.kind == "query":
            name = name._replace(name=Path(name.name).name)
        rng = random.Random(f"{self.seed}:{name}")
        return _Decoded(row, self.pixels.to_uint8([image, *(augment(image, rng) for _ in range(count - 1))]))


def augment(image: Image.Image, rng: random.Random) -> Image.Image:
    """Returns a random crop (70 to 100 % of the area) with slightly changed brightness and contrast."""
    area, ratio = rng.uniform(0.7, 1.0), math.exp(rng.uniform(-0.15, 0.15))
    width, height = (min(1.0, math.sqrt(area * r)) for r in (ratio, 1 / ratio))
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    box = [left * image.width, top * image.height, (left + width) * image.width, (top + height) * image.height]
    image = image.crop((int(box[0]), int(box[1]), math.ceil(box[2]), math.ceil(box[3])))
    image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.75, 1.25))
    return ImageEnhance.Contrast(image).enhance(rng.uniform(0.75, 1.25))
