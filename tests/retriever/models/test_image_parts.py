"""Vectors of many parts of an image at once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from PIL import Image

from omgm.parts import build_encoder
from omgm.profile import load_profile
from pretraining.designs import paint, random_design
from retriever.models.encoder import ClipEncoder
from retriever.models.feature_map import READ_SIDE, _window
from retriever.protocols import LocalEncoder
from tests.fakes.models import FakeEncoder


@pytest.fixture(scope="module")
def encoder() -> ClipEncoder:
    encoder = build_encoder(load_profile("embedded"))
    assert isinstance(encoder, ClipEncoder)
    return encoder


def test_a_part_is_a_window_of_whole_cells() -> None:
    assert _window((0.25, 0.5, 0.75, 1.0), 16) == (4, 8, 8)
    assert _window((0.375, 0.375, 1.0, 1.0), 8) == (3, 3, 5)
    assert _window((0.9, 0.9, 1.0, 1.0), 4) == (3, 3, 1)


def test_the_whole_image_is_a_part(encoder: ClipEncoder) -> None:
    image = painted(1)
    parts = encoder.encode_parts
    assert parts is not None and encoder.photos is not None
    large = replace(encoder.pixels, size=READ_SIDE).to_device([image], torch.device("cpu"), encoder.model.dtype)
    with torch.inference_mode():
        own = torch.nn.functional.normalize(encoder.model.get_image_features(large).float(), dim=-1)
        photos = encoder.photos
        pixels = replace(photos._pixels, size=READ_SIDE).to_uint8([image]).float() / 255
        expected = photos.joined(own, photos.features(pixels))
    [part], width = parts(image, [(0.0, 0.0, 1.0, 1.0)]), photos.dimension
    torch.testing.assert_close(part[-width:], expected[0, -width:], atol=2e-2, rtol=0)
    assert torch.cosine_similarity(part[:-width], expected[0, :-width], dim=0) > 0.95  # attends to fewer cells


def test_parts_are_about_what_cut_out_images_are(encoder: ClipEncoder) -> None:
    image, crops = Image.new("RGB", (512, 512)), []
    for number, (x, y) in enumerate(((0, 0), (256, 0), (0, 256), (256, 256))):
        image.paste(painted(number).resize((256, 256)), (x, y))
        crops.append((x / 512, y / 512, x / 512 + 0.5, y / 512 + 0.5))
    parts = encoder.encode_parts
    assert parts is not None
    cut = encoder.encode_images([painted(number).resize((256, 256)) for number in range(4)])
    assert (parts(image, crops) @ cut.T).argmax(1).tolist() == [0, 1, 2, 3]
    mixed = [crops[2], (0.0, 0.0, 1.0, 1.0), crops[0]]  # of several sizes, in the order given
    torch.testing.assert_close(parts(image, mixed)[[0, 2]], parts(image, [crops[2], crops[0]]), atol=1e-3, rtol=0)


def test_other_encoders_have_no_feature_maps_of_parts() -> None:
    assert not isinstance(FakeEncoder(), LocalEncoder)


def painted(seed: int) -> Image.Image:
    return paint(random_design(random.Random(seed))).convert("RGB")
