"""Fits the projection of a frozen network's features to images (`retriever.models.photo_tower`).

A linear discriminant analysis: finds directions in which entities differ most, compared with how much views of one
entity differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from retriever.gpu import to_device
from retriever.models.photo_tower import PhotoTower
from training.augment import vary
from training.images import StoredImages

MOST, VIEWS = 4000, 2
"""Most images that a projection is fitted to, and the number of augmented views of each beside the image itself."""
BATCH = 32

SHRINKAGE = 0.3
"""Share of the mean variance that is added to all variances within entities, which are estimated from few views."""


class PhotoProjection(NamedTuple):
    """What features are shifted by and multiplied with.

    Attributes:
        mean: float32 [F].
        matrix: float32 [dimension, F].
    """

    mean: Tensor
    matrix: Tensor


def fit_projection(features: Tensor, owners: Tensor, dimension: int) -> PhotoProjection:
    """Fits a projection to the features of several views of each entity.

    Args:
        features: float32 [N, F].
        owners: The entity that each of them shows, int64 [N], from 0 without gaps.
        dimension: Length of the projected vectors.

    Raises:
        ValueError: There are not more entities than dimensions.
    """
    count = torch.bincount(owners).double()[:, None]
    if len(count) <= dimension:
        raise ValueError(f"expected images of more than {dimension} entities, got {len(count)}")
    values = features.double()
    centers = torch.zeros(len(count), values.shape[1], dtype=values.dtype).index_add_(0, owners, values) / count
    mean = centers.mean(0)
    apart, between = values - centers[owners], centers - mean
    within = apart.T @ apart / (len(values) - len(centers))
    within += torch.eye(len(within), dtype=values.dtype) * SHRINKAGE * within.trace() / len(within)
    factor = torch.linalg.cholesky(within)
    half = torch.linalg.solve_triangular(factor, between.T, upper=False)
    _, directions = torch.linalg.eigh(half @ half.T)  # ascending
    chosen = directions[:, -dimension:].flip(1)
    matrix = torch.linalg.solve_triangular(factor.T, chosen, upper=True).T
    return PhotoProjection(mean.float(), matrix.float())


def views_of(
    tower: PhotoTower, images: StoredImages, rows: Sequence[int], strengths: Sequence[float], seed: int
) -> Tensor:
    """Returns the features of views of images, float32 [len(strengths), len(rows), F] on the CPU.

    Args:
        tower: The network.
        images: The images.
        rows: Which of them.
        strengths: How much each view is augmented (`training.augment.vary`); 0 shows the image itself.
        seed: Seed of the augmentation.
    """
    generator = torch.Generator().manual_seed(seed)

    def batches() -> Iterator[Tensor]:
        for start in range(0, len(rows), BATCH):
            shown = images[rows[start : start + BATCH]]
            views = torch.cat([vary(shown, tower.size, generator, strength) for strength in strengths])
            yield tower.features(to_device(views, tower.device)).cpu().unflatten(0, (len(strengths), -1))

    with torch.inference_mode():
        return torch.cat(list(batches()), dim=1)


def refit(
    tower: PhotoTower,
    images: StoredImages,
    owners: Sequence[int],
    keys: Sequence[int],
    held_out: Sequence[Sequence[int]],
    seed: int,
) -> tuple[PhotoProjection | None, dict[str, float]]:
    """Fits the projection to a knowledge base's images, and measures whether it finds held-out images better.

    Args:
        tower: The network with its present projection.
        images: The images to train on, then the held-out ones.
        owners: The entity of each image to train on.
        keys: The images to find, one per entity.
        held_out: The entities that each held-out image shows; without any, other views of the keys are held out.
        seed: Seed of the augmentation and of what is drawn of more than `MOST` images.

    Returns:
        The projection, or `None` if the present one finds as many or there are too few entities to fit one, and
        Recall@1 among the keys by this part of the vectors alone, with the present and the fitted projection.
    """
    drawn = list(range(len(owners)))
    if len(drawn) > MOST:
        drawn = sorted(random.Random(seed).sample(drawn, MOST))
    shown, numbers = torch.tensor([owners[row] for row in drawn]).unique(return_inverse=True)
    if len(shown) <= tower.dimension:
        return None, {}
    views = views_of(tower, images, drawn, [0.0, *[1.0] * VIEWS], seed)
    fitted = fit_projection(views.flatten(0, 1), numbers.repeat(1 + VIEWS), tower.dimension)
    found = views_of(tower, images, keys, [0.0], seed)[0]
    if held_out:
        asked = views_of(tower, images, range(len(owners), len(owners) + len(held_out)), [0.0], seed)[0]
    else:
        held_out = [[owners[key]] for key in keys]
        asked = views_of(tower, images, keys, [1.0], seed + 1)[0]
    key_owners = [owners[key] for key in keys]

    def recall(projection: PhotoProjection) -> float:
        query, key = (
            functional.normalize((part - projection.mean) @ projection.matrix.T, dim=1) for part in (asked, found)
        )
        best = (query @ key.T).argmax(1).tolist()
        return sum(key_owners[one] in right for one, right in zip(best, held_out, strict=True)) / len(held_out)

    before, after = recall(PhotoProjection(*tower.projection)), recall(fitted)
    return (fitted if after > before else None), {"before": before, "after": after}
