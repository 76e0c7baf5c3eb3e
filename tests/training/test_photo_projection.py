from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from training.photo_projection import PhotoProjection, fit_projection, refit


def views(entities: int, each: int, noise: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns features whose first two values tell entities apart, beside noise of the given size in all values."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.zeros(entities, len(noise))
    centers[:, :2] = torch.randn(entities, 2, generator=generator)
    owners = torch.arange(entities).repeat_interleave(each)
    return centers[owners] + noise * torch.randn(len(owners), len(noise), generator=generator), owners


def test_directions_that_tell_entities_apart_are_kept() -> None:
    noise = torch.tensor([0.1, 0.1, 1.0, 1.0, 1.0])
    features, owners = views(1000, 20, noise)
    mean, matrix = fit_projection(features, owners, 2)
    assert matrix.shape == (2, 5) and torch.allclose(mean, features.mean(0), atol=1e-5)
    strength = matrix.abs()
    assert strength[:, :2].amax(1).min() > 10 * strength[:, 2:].max()


def test_views_differ_by_one_in_every_direction() -> None:
    """Up to the shrinkage of 0.3 of the mean variance, 1 here, variances within entities become 1 / 1.3."""
    features, owners = views(4000, 3, torch.ones(4))
    projected = features @ fit_projection(features, owners, 3).matrix.T
    centers = torch.zeros(4000, 3).index_add_(0, owners, projected) / 3
    apart = projected - centers[owners]
    within = apart.T @ apart / (len(apart) - 4000)
    torch.testing.assert_close(within, torch.eye(3) / 1.3, atol=0.03, rtol=0)


def test_too_few_entities() -> None:
    features, owners = views(3, 2, torch.ones(4))
    with pytest.raises(ValueError, match="more than 3 entities, got 3"):
        fit_projection(features, owners, 3)


class Tower:
    """A network whose features of an image are the mean and the spread of its channels."""

    size, dimension, device = 16, 2, torch.device("cpu")

    def __init__(self, matrix: Tensor) -> None:
        self.projection = PhotoProjection(torch.zeros(6), matrix)

    def features(self, pixels: Tensor) -> Tensor:
        return torch.cat([pixels.mean((2, 3)), pixels.std((2, 3))], dim=1)


class Images:
    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: list[int]) -> Tensor:
        return self.values[rows]


def test_a_projection_is_replaced_only_by_a_better_one() -> None:
    generator = torch.Generator().manual_seed(0)
    colors = torch.randint(0, 255, (40, 3, 1, 1), generator=generator)
    grain = torch.randint(-20, 20, (40, 3, 20, 20), generator=generator)
    images = Images((colors + grain).clamp(0, 255).to(torch.uint8))
    blind = Tower(functional.one_hot(torch.tensor([4, 5]), 6).float())  # sees the spread alone
    fitted, found = refit(blind, images, list(range(40)), list(range(40)), [], 0)  # type: ignore[arg-type]
    assert fitted is not None and found["after"] > 0.3 > found["before"]
    seeing = Tower(fitted.matrix)
    seeing.projection = fitted
    again, same = refit(seeing, images, list(range(40)), list(range(40)), [], 0)  # type: ignore[arg-type]
    assert again is None and same["before"] == same["after"]
    assert refit(seeing, images, [0, 1], [0, 1], [], 0) == (None, {})  # type: ignore[arg-type]
