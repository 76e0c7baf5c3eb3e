from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn import functional

from retriever.models.checkpoints import convert_checkpoint
from retriever.models.encoder import ClipEncoder
from tests.fakes.unread_device import DEVICE, UnreadDevice

open_clip = pytest.importorskip("open_clip")
pytest.importorskip("timm")

TEXTS = ["A red flag.", "Three bands: blue, white & red", "", "a " * 100 + "green field"]
EVA02 = {  # open_clip's EVA02 configurations with the smallest EVA-02 of timm
    "embed_dim": 24,
    "vision_cfg": {
        "image_size": 224,
        "timm_model_name": "eva02_tiny_patch14_224",
        "timm_model_pretrained": False,
        "timm_pool": "token",
        "timm_proj": "linear",
    },
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    "custom_text": True,
}


def sample_images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    sizes = [(224, 224), (301, 225), (97, 411)]
    return [Image.fromarray(rng.integers(0, 255, (h, w, 3), dtype=np.uint8)) for w, h in sizes]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in open_clip's published layout."""
    return open_clip_folder(tmp_path_factory.mktemp("open_clip"))


def open_clip_folder(folder: Path) -> Path:
    """Writes a tiny model with random weights, and returns the folder."""
    from open_clip.push_to_hf_hub import save_config_for_hf

    torch.manual_seed(0)
    model = open_clip.model.CustomTextCLIP(**{key: EVA02[key] for key in ("embed_dim", "vision_cfg", "text_cfg")})
    open_clip.model.set_model_preprocess_cfg(model, preprocess(model))
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    save_config_for_hf(model, folder / "open_clip_config.json", model_config=json.loads(json.dumps(EVA02)))
    return folder


def preprocess(model: Any, **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = open_clip.transform.PreprocessCfg(size=model.visual.image_size[0]).__dict__
    return config | changes


def published(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the vectors of open_clip's own pipeline."""
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack([transform(image) for image in sample_images()]))
        texts = model.encode_text(tokenizer(TEXTS))
    return functional.normalize(images, dim=-1), functional.normalize(texts, dim=-1)


def test_open_clips_own_pipeline_gives_the_same_vectors(saved: Path) -> None:
    encoder = ClipEncoder.load(saved, batch_size=2)
    images, texts = published(saved)
    assert encoder.dimension == 24
    torch.testing.assert_close(encoder.encode_images(sample_images()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(TEXTS), texts, atol=1e-5, rtol=0)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 24)


@pytest.mark.parametrize("mode", ["longest", "squash"])
def test_images_are_prepared_as_the_folder_asks(saved: Path, tmp_path: Path, mode: str) -> None:
    for file in saved.iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((saved / "open_clip_config.json").read_text())
    config["preprocess_cfg"] |= {"resize_mode": mode, "interpolation": "bilinear", "mean": [0.5] * 3, "std": [0.4] * 3}
    (tmp_path / "open_clip_config.json").unlink()
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    images, _ = published(tmp_path)
    torch.testing.assert_close(ClipEncoder.load(tmp_path).encode_images(sample_images()), images, atol=1e-5, rtol=0)


def test_windows_read_all_of_a_long_text(saved: Path) -> None:
    encoder = ClipEncoder.load(saved, long_texts="windows")
    words = ["red", "flag"] * 80  # one token each; 75 fit between the two special ones
    windows = [" ".join(words[start : start + 75]) for start in (0, 75, 150)]
    parts = encoder.encode_texts(windows)
    mean = functional.normalize((parts * torch.tensor([[77.0], [77.0], [12.0]])).sum(0), dim=0)
    torch.testing.assert_close(encoder.encode_texts([" ".join(words)])[0], mean, atol=1e-5, rtol=0)
    assert encoder.fingerprint == ClipEncoder.load(saved).fingerprint + "-windows"


def test_a_device_is_not_waited_for(saved: Path) -> None:
    encoder = ClipEncoder.load(saved, batch_size=2)
    encoder.model.to(DEVICE)
    with UnreadDevice() as device:
        assert len(encoder.encode_images(sample_images())) == 3
        assert len(encoder.encode_texts(TEXTS)) == 4
    assert device.reads == 0


def test_half_precision_is_as_asked_and_stays_near(saved: Path) -> None:
    encoder = ClipEncoder.load(saved, dtype=torch.bfloat16)
    assert encoder.model.dtype == torch.bfloat16
    images, texts = published(saved)
    assert (encoder.encode_images(sample_images()) * images).sum(-1).min() > 0.995
    assert (encoder.encode_texts(TEXTS) * texts).sum(-1).min() > 0.995


def test_a_pickled_checkpoint_is_refused_until_it_is_converted(saved: Path, tmp_path: Path) -> None:
    state = open_clip.create_model(f"local-dir:{saved}").state_dict()
    torch.save(state, tmp_path / "open_clip_pytorch_model.bin")
    (tmp_path / "open_clip_config.json").write_text((saved / "open_clip_config.json").read_text())
    with pytest.raises(ValueError, match=r"has no \.safetensors file"):
        ClipEncoder.load(tmp_path)
    (tmp_path / "other.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"open_clip_model\.safetensors: not found; .*convert_checkpoint"):
        ClipEncoder.load(tmp_path)
    convert_checkpoint(tmp_path / "open_clip_pytorch_model.bin", tmp_path / "open_clip_model.safetensors")
    _, texts = published(saved)
    torch.testing.assert_close(ClipEncoder.load(tmp_path).encode_texts(TEXTS), texts, atol=1e-5, rtol=0)


def test_it_cannot_be_saved_as_one_of_transformers(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only transformers models can be saved, not OpenClip"):
        ClipEncoder.load(saved).save(tmp_path)
