from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPConfig, CLIPModel

from retriever.models.encoder import ClipEncoder
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from training.tokenizer import train_tokenizer

TEXTS = ["a red flag", "three bands of blue, white and red", "green"]


def pictures(count: int = 3) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (40, 60 + 7 * i, 3), dtype=np.uint8)) for i in range(count)]


def small_encoder(max_tokens: int = 16) -> ClipEncoder:
    tokenizer = train_tokenizer(TEXTS * 3, 200, max_tokens)
    torch.manual_seed(0)
    config = SmallCLIPConfig(
        image_size=32, channels=(8, 8, 16, 16), vocab_size=len(tokenizer), text_width=16, max_text_tokens=max_tokens
    )
    return ClipEncoder(SmallCLIP(config), tokenizer, PixelPreparation(32), max_tokens, "small")


def test_saved_and_loaded_gives_the_same_vectors(tmp_path: Path) -> None:
    encoder = small_encoder()
    encoder.save(tmp_path)
    loaded = ClipEncoder.load(tmp_path)
    np.testing.assert_array_equal(loaded.encode_images(pictures()), encoder.encode_images(pictures()))
    np.testing.assert_array_equal(loaded.encode_texts(TEXTS), encoder.encode_texts(TEXTS))
    assert loaded.fingerprint == ClipEncoder.load(tmp_path).fingerprint
    encoder.save(tmp_path, torch.float16)
    halved = ClipEncoder.load(tmp_path)
    assert halved.fingerprint != loaded.fingerprint
    np.testing.assert_allclose(halved.encode_texts(TEXTS), encoder.encode_texts(TEXTS), atol=5e-3)


def test_batched_is_single_and_unit_length() -> None:
    encoder = small_encoder()
    encoder.batch_size = 2
    together = encoder.encode_images(pictures())
    single = torch.cat([encoder.encode_images([picture]) for picture in pictures()])
    np.testing.assert_allclose(together, single, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    texts = encoder.encode_texts(TEXTS)
    np.testing.assert_allclose(
        texts, torch.cat([encoder.encode_texts([text]) for text in TEXTS]), atol=1e-6
    )  # padding does not show


def test_nothing_in_nothing_out_and_long_text_is_cut() -> None:
    encoder = small_encoder(max_tokens=8)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 128)
    assert encoder.tokenize(["red " * 50])["input_ids"].shape == (1, 8)


def test_a_clip_model_of_transformers_loads_by_the_same_code(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, 200, 16)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = CLIPModel(
        CLIPConfig(
            text_config={
                **sizes,
                "vocab_size": len(tokenizer),
                "max_position_embeddings": 16,
                "eos_token_id": tokenizer.sep_token_id,
            },
            vision_config={**sizes, "image_size": 32, "patch_size": 8},
            projection_dim=24,
        )
    ).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    PixelPreparation(32, crop=True).save(tmp_path)
    encoder = ClipEncoder.load(tmp_path)
    pixels = PixelPreparation(32, crop=True)(pictures())
    with torch.no_grad():
        expected = model.visual_projection(model.vision_model(pixels).pooler_output)
    expected = expected / expected.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(encoder.encode_images(pictures()), expected.numpy(), atol=1e-5)
    assert encoder.encode_texts(TEXTS).shape == (3, 24)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no \.safetensors file"):
        ClipEncoder.load(tmp_path)


def test_squash_keeps_all_and_crop_keeps_the_middle(tmp_path: Path) -> None:
    wide = Image.new("RGB", (60, 20), "red")
    wide.paste((0, 0, 255), (20, 0, 40, 20))  # thirds: red, blue, red
    squashed = PixelPreparation(30).to_uint8([wide])[0]
    assert squashed[:, 15, 2].tolist() == [255, 0, 0]
    assert squashed[:, 15, 15].tolist() == [0, 0, 255]
    cropped = PixelPreparation(30, crop=True).to_uint8([wide])[0]
    assert (cropped[2] > 200).float().mean() > 0.9  # the blue third alone
    # (0.5 - mean) / std of CLIP's first channel
    gray = PixelPreparation(4).normalize(torch.full((1, 3, 4, 4), 0.5))
    assert gray[0, 0, 0, 0].item() == pytest.approx((0.5 - 0.48145466) / 0.26862954)
    PixelPreparation(30, crop=True).save(tmp_path)
    assert PixelPreparation.load(tmp_path) == PixelPreparation(30, crop=True)
