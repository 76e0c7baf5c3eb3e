from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from retriever.models.encoder import ClipEncoder
from retriever.models.image_tower import ImageTower
from retriever.protocols import JoinedEncoder
from tests.fakes.published_models import write_dinov2, write_dinov3
from tests.retriever.models.test_encoder import clip_folder, random_images, sample_images


def pixels(folder: Path, kind: str) -> Any:
    """Returns the pixels as transformers' own preprocessing makes them."""
    if kind == "dinov2":
        from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

        return BitImageProcessorPil.from_pretrained(folder)(random_images())["pixel_values"]
    from transformers.models.dinov3_vit.image_processing_dinov3_vit import DINOv3ViTImageProcessor

    rgb = [image.convert("RGB") for image in random_images()]
    return [one.numpy() for one in DINOv3ViTImageProcessor.from_pretrained(folder)(rgb)["pixel_values"]]


@pytest.mark.parametrize(("kind", "write"), [("dinov2", write_dinov2), ("dinov3", write_dinov3)])
def test_it_sees_what_transformers_own_pipeline_sees(kind: str, write: Any, tmp_path: Path) -> None:
    from transformers import AutoModel

    write(tmp_path)
    tower = ImageTower.load(tmp_path, share=1)
    model = AutoModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(np.stack(pixels(tmp_path, kind)))).pooler_output
    seen = tower.with_images(torch.ones(len(expected), 1), random_images())
    assert tower.dimension == 16 and not seen[:, 0].any()
    torch.testing.assert_close(seen[:, 1:], expected / expected.norm(dim=1, keepdim=True), atol=1e-5, rtol=0)
    single = tower.with_images(torch.ones(1, 1), random_images()[2:3])
    torch.testing.assert_close(single, seen[2:3], atol=1e-6, rtol=0)


def test_a_joined_encoder_adds_up_the_cosines(tmp_path: Path) -> None:
    for name, write in (("clip", clip_folder), ("dino", write_dinov2)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    alone = ClipEncoder.load(tmp_path / "clip", batch_size=2)
    own, tower = alone.encode_images(sample_images()), ImageTower.load(tmp_path / "dino", share=1)
    seen = tower.with_images(own, sample_images())[:, 24:]

    joined = ClipEncoder.load(tmp_path / "clip", batch_size=2)
    joined.photos = ImageTower.load(tmp_path / "dino", share=0.25)
    assert isinstance(joined, JoinedEncoder) and joined.appended == 16 and joined.dimension == 24 + 16
    vectors = joined.encode_images(sample_images())

    def cosines(rows: Tensor) -> Tensor:
        return rows @ rows.T

    torch.testing.assert_close(cosines(vectors), 0.75 * cosines(own) + 0.25 * cosines(seen), atol=1e-5, rtol=0)
    torch.testing.assert_close(joined.encode_keys(sample_images()), vectors, atol=1e-6, rtol=0)
    texts = joined.encode_texts(["a red flag"])
    torch.testing.assert_close(vectors @ texts.T, 0.75**0.5 * own @ alone.encode_texts(["a red flag"]).T)
    assert joined.encode_images([]).shape == joined.encode_texts([]).shape == (0, 40)


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    clip_folder(tmp_path)
    with pytest.raises(ValueError, match=r"model_type: must be one of dinov2, .*, got 'clip'"):
        ImageTower.load(tmp_path)
