from __future__ import annotations

import torch
from torch.nn import functional

from training.augment import _blurred, vary


def test_strength_zero_only_resizes() -> None:
    image = torch.arange(4 * 4 * 3, dtype=torch.uint8).view(1, 3, 4, 4)
    same = vary(image, 4, torch.Generator().manual_seed(0), strength=0.0)
    torch.testing.assert_close(same, image.float() / 255)


def test_each_image_varies_by_the_generator_alone() -> None:
    images = torch.randint(0, 255, (1, 3, 40, 40), dtype=torch.uint8).expand(5, -1, -1, -1)
    one = vary(images, 32, torch.Generator().manual_seed(3))
    assert one.shape == (5, 3, 32, 32)
    assert one.min() >= 0 and one.max() <= 1
    assert not torch.equal(one[0], one[1])
    torch.testing.assert_close(one, vary(images, 32, torch.Generator().manual_seed(3)), rtol=0, atol=0)


def test_images_are_never_mirrored() -> None:
    image = torch.zeros(1, 3, 40, 40, dtype=torch.uint8)
    image[..., :20] = 255  # white on the left
    for seed in range(10):
        varied = vary(image, 40, torch.Generator().manual_seed(seed))[0].mean(0)
        assert varied[:, :8].mean() > varied[:, -8:].mean()


def test_blurring_is_the_mean_of_nine_pixels() -> None:
    images = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(0))
    pooled = functional.avg_pool2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    torch.testing.assert_close(_blurred(images), pooled, rtol=0, atol=1e-6)
