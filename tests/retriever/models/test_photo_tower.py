from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from pretraining.tokenizer import train_tokenizer
from retriever.models import photo_tower
from retriever.models.efficientnet_lite import _STAGES
from retriever.models.encoder import ClipEncoder
from retriever.models.folder import kind_of
from retriever.models.model_card import model_card
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import FEATURES, SmallCLIP, SmallCLIPConfig
from tests.paths import ROOT

TEXTS = ["a red flag", "three bands of blue, white and red", "green"]
_WIDTHS = (16, 24, 40, 80, 112, 192, 320)
_SIDES = (3, 3, 5, 3, 5, 5, 3)


def random_network() -> dict[str, Tensor]:
    """Returns random weights of an EfficientNet-Lite0, under their published names."""
    torch.manual_seed(1)
    layers: dict[str, nn.Module] = {"_conv_stem": nn.Conv2d(3, 32, 3, bias=False), "_bn0": nn.BatchNorm2d(32)}
    width, number = 32, 0
    for narrow, side, (count, _) in zip(_WIDTHS, _SIDES, _STAGES, strict=True):
        for _ in range(count):
            inner, block = width * (6 if number else 1), f"_blocks.{number}."
            if number:
                layers |= {f"{block}_expand_conv": nn.Conv2d(width, inner, 1, bias=False)}
                layers |= {f"{block}_bn0": nn.BatchNorm2d(inner)}
            layers |= {f"{block}_depthwise_conv": nn.Conv2d(inner, inner, side, groups=inner, bias=False)}
            layers |= {f"{block}_bn1": nn.BatchNorm2d(inner)}
            layers |= {f"{block}_project_conv": nn.Conv2d(inner, narrow, 1, bias=False)}
            layers |= {f"{block}_bn2": nn.BatchNorm2d(narrow)}
            width, number = narrow, number + 1
    layers |= {"_conv_head": nn.Conv2d(320, FEATURES, 1, bias=False), "_bn1": nn.BatchNorm2d(FEATURES)}
    return {f"{name}.{key}": value for name, layer in layers.items() for key, value in layer.state_dict().items()}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    save_file(random_network(), folder / "model.safetensors")
    return folder


def save_seeing_encoder(folder: Path, dimension: int) -> None:
    """Saves a small encoder whose base model "tiny" sees photographs, with a random projection."""
    tokenizer = train_tokenizer(TEXTS * 3, 200, 16)
    torch.manual_seed(0)
    config = SmallCLIPConfig(
        image_size=32,
        channels=(8, 8, 16, 16),
        vocab_size=len(tokenizer),
        text_width=16,
        max_text_tokens=16,
        base_model="tiny",
        photo_size=64,
        photo_dim=dimension,
        photo_share=0.36,
    )
    model = SmallCLIP(config)
    model.photo_mean.uniform_(0, 0.1)
    model.photo_projection.normal_()
    ClipEncoder(model, tokenizer, PixelPreparation(32), 16, "small").save(folder)


@pytest.fixture
def folder(tmp_path: Path, network: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encoder whose vectors have a part from a network with random weights."""
    monkeypatch.setattr(photo_tower, "base_model", {"tiny": network}.__getitem__)
    save_seeing_encoder(tmp_path, 8)
    return tmp_path


def sample_images(count: int = 3) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (40, 60 + 7 * i, 3), dtype=np.uint8)) for i in range(count)]


def test_a_base_model_does_not_make_it_an_encoder_of_sections(folder: Path) -> None:
    assert kind_of(folder) == kind_of(ROOT / "weights" / "embedded" / "encoder") == "encoder"
    assert "| vector length | 136 |" in model_card(folder)


def test_a_similarity_is_the_weighted_mean_of_both(folder: Path) -> None:
    encoder, plain = ClipEncoder.load(folder), ClipEncoder.load(folder)
    assert encoder.photos is not None
    plain.photos = None
    assert (encoder.dimension, plain.dimension) == (136, 128)
    images = sample_images()
    shown = PixelPreparation(encoder.photos.size).to_uint8(images).float() / 255
    with torch.inference_mode():
        features = encoder.photos.features(shown).double()
    mean, projection = (encoder.model.photo_mean.double(), encoder.model.photo_projection.double())
    seen = functional.normalize((features - mean) @ projection.T, dim=-1).float()
    own, words = plain.encode_images(images), plain.encode_texts(TEXTS)
    vectors, texts = encoder.encode_images(images), encoder.encode_texts(TEXTS)
    torch.testing.assert_close(vectors @ vectors.T, 0.64 * own @ own.T + 0.36 * seen @ seen.T, atol=1e-4, rtol=0)
    torch.testing.assert_close(vectors @ texts.T, 0.8 * own @ words.T, atol=1e-5, rtol=0)  # sqrt(0.64)
    for unit in (vectors, texts, encoder.encode_keys(images)):
        torch.testing.assert_close(unit.norm(dim=1), torch.ones(3))
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 136)


def test_keys_of_several_sizes_have_one_part_of_the_network(folder: Path) -> None:
    images = sample_images()
    keys = ClipEncoder.load(folder, key_sizes=(16, 32), batch_size=2).encode_keys(images)
    vectors = ClipEncoder.load(folder).encode_images(images)
    torch.testing.assert_close(keys[:, 128:], vectors[:, 128:], atol=1e-5, rtol=0)
    assert not torch.allclose(keys[:, :128], vectors[:, :128], atol=1e-3)


def test_fused_is_not_fused_and_saved_is_loaded(folder: Path, tmp_path: Path) -> None:
    encoder = ClipEncoder.load(folder, fused=True)
    vectors = encoder.encode_images(sample_images())
    encoder.save(tmp_path / "again")
    loaded = ClipEncoder.load(tmp_path / "again")
    torch.testing.assert_close(loaded.encode_images(sample_images()), vectors, atol=1e-5, rtol=0)
    loaded.model.photo_projection[0, 0] += 1
    loaded.save(tmp_path / "other")
    assert ClipEncoder.load(tmp_path / "other").fingerprint != ClipEncoder.load(tmp_path / "again").fingerprint
