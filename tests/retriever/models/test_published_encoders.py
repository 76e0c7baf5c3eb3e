"""Encoders of 2025, at tiny sizes: the vectors are those of the libraries that publish them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from retriever.models.encoder import ClipEncoder
from tests.fakes.published_models import write_bioclip2, write_siglip2
from tests.retriever.models.test_encoder import random_images, unit

TEXTS = ["A Red Flag", "a red flag", "three bands of blue, " * 30, ""]


def test_siglip2_lowers_its_texts_and_pads_them_with_its_own_token(tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    write_siglip2(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=2)
    model, tokenizer = AutoModel.from_pretrained(tmp_path).eval(), AutoTokenizer.from_pretrained(tmp_path)
    pixels = torch.from_numpy(np.stack(SiglipImageProcessorPil.from_pretrained(tmp_path)(random_images()).pixel_values))
    lower = [text.lower() for text in TEXTS]  # as its documentation asks; Gemma's tokenizer keeps capitals
    ids = tokenizer(lower, padding="max_length", truncation=True, max_length=64, return_tensors="pt").input_ids
    assert ids.shape == (4, 64) and ids[3].tolist() == [1] + [0] * 63
    with torch.no_grad():
        images, words = unit(model.get_image_features(pixels)), unit(model.get_text_features(ids))
        capitals = unit(
            model.get_text_features(tokenizer(TEXTS[:1], padding="max_length", return_tensors="pt").input_ids)
        )
    torch.testing.assert_close(encoder.encode_images(random_images()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(TEXTS), words, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(TEXTS[:1]), words[:1], atol=1e-5, rtol=0)
    assert not torch.allclose(words[:1], capitals, atol=1e-3)
    encoder.save(tmp_path / "saved")
    again = ClipEncoder.load(tmp_path / "saved")
    torch.testing.assert_close(again.encode_texts(TEXTS), words, atol=1e-5, rtol=0)


def test_bioclip2_is_read_as_open_clip_reads_it(tmp_path: Path) -> None:
    open_clip = pytest.importorskip("open_clip")
    write_bioclip2(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=2)
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{tmp_path}")
    names = ["a photo of Corvus corax", "Animalia Chordata Aves " * 40]
    rgb: list[Image.Image] = [image.convert("RGB") for image in random_images()]
    with torch.no_grad():
        images = unit(model.eval().encode_image(torch.stack([transform(image) for image in rgb])))
        texts = unit(model.encode_text(open_clip.get_tokenizer(f"local-dir:{tmp_path}")(names)))
    torch.testing.assert_close(encoder.encode_images(rgb), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(names), texts, atol=1e-5, rtol=0)
