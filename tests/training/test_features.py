"""Image features: augmented views, and a cache of limited size."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import torch
from PIL import Image

from retriever.models.qformer import QFormerFusion
from tests.retriever.models.test_blip2 import kept, published  # noqa: F401  fixtures: the tiny BLIP-2 of transformers
from training.features import VIEWS, Features, ImageKey, augment


def test_an_augmented_image_keeps_most_of_the_area() -> None:
    image = Image.new("RGB", (60, 40), "orange")
    view = augment(image, random.Random(1))
    assert view.mode == "RGB"
    assert 0.65 * 2400 < view.width * view.height <= 2400
    assert augment(image, random.Random(1)).tobytes() == view.tobytes()


def test_the_least_recently_used_features_are_dropped(kept: Path) -> None:  # noqa: F811
    read: list[str] = []

    def load(name: str) -> Image.Image:
        read.append(name)
        return Image.new("RGB", (20, 20), name)

    images = {ImageKey("main", color): partial(load, color) for color in ("red", "green", "blue")}
    fusion = QFormerFusion.load(kept)
    one = VIEWS["main"] * 17 * 24 * 2  # views, cells of a 4 x 4 grid and the class token, width, bytes
    features = Features(fusion, images, seed=0, limit=2 * one)
    red, green, blue = images
    first = features[red]
    assert first.dtype == torch.bfloat16 and first.shape == (2, 17, 24)
    with torch.no_grad():
        plain = fusion.vision_features(fusion.pixels([Image.new("RGB", (20, 20), "red")]))[0]
    torch.testing.assert_close(first[0].float(), plain, atol=0.05, rtol=0.01)
    for key in (green, red, blue, red, green):  # blue drops green, and green drops blue
        features[key]
    assert read == ["red", "green", "blue", "green"]
    assert features.bytes == 2 * one
    assert torch.equal(Features(fusion, images, seed=0, limit=0)[green], features[green])
