"""A transformers BLIP-2 checkpoint, loaded as a fusion encoder, gives the same tokens as in transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import BertTokenizer, Blip2ForImageTextRetrieval, BlipImageProcessorPil

from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from tests.fakes.blip2 import SIZE, blip2
from tests.fakes.unread_device import DEVICE, UnreadDevice

TEXTS = ["what is it", "the old red tree", "how tall is the blue flag", "flag"]


def sample_images() -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        for width, height in ((40, 30), (20, 55), (16, 16), (33, 32))
    ]


@pytest.fixture(scope="module")
def published() -> Blip2ForImageTextRetrieval:
    return blip2()


@pytest.fixture
def folder(blip2_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(blip2_folder, tmp_path / "copy"))


@torch.inference_mode()
def expected(published: Blip2ForImageTextRetrieval, fusion: QFormerFusion, padding: int = 0) -> torch.Tensor:
    processor = BlipImageProcessorPil(size={"height": SIZE, "width": SIZE})
    pixels = processor(sample_images(), return_tensors="pt")["pixel_values"]
    assert isinstance(fusion.tokenizer, BertTokenizer)
    texts = fusion.tokenizer(TEXTS, padding=True, return_tensors="pt")
    ids, mask = (functional.pad(texts[key], (0, padding)) for key in ("input_ids", "attention_mask"))
    output = published(pixels, ids, mask, use_image_text_matching_head=True)
    tokens: torch.Tensor = output.text_embeds[:, :32]
    return tokens


def test_it_is_kept_in_shards(blip2_folder: Path) -> None:
    assert len(list(blip2_folder.glob("model-*.safetensors"))) > 2


def test_tokens_are_those_of_transformers(published: Blip2ForImageTextRetrieval, blip2_folder: Path) -> None:
    fusion = QFormerFusion.load(blip2_folder)
    assert fusion.token_shape == (32, 16)
    assert fusion.max_text_tokens == 20
    found = fusion.encode(sample_images(), TEXTS)
    torch.testing.assert_close(found, expected(published, fusion), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found, expected(published, fusion, padding=9), atol=1e-5, rtol=1e-5)


def test_sections_are_pairs_with_one_image(blip2_folder: Path) -> None:
    fusion = QFormerFusion.load(blip2_folder, batch_size=3)
    one = sample_images()[1]
    torch.testing.assert_close(fusion.encode_sections([one], [TEXTS]), fusion.encode([one] * 4, TEXTS))


def test_a_device_is_not_waited_for(blip2_folder: Path) -> None:
    fusion = QFormerFusion.load(blip2_folder, batch_size=3).to(DEVICE)
    with UnreadDevice() as device:
        assert len(fusion.encode(sample_images(), TEXTS)) == 4
        assert len(fusion.encode_sections(sample_images(), [TEXTS] * 4)) == 16
    assert device.reads == 0


def test_one_image_is_encoded_once(blip2_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fusion = QFormerFusion.load(blip2_folder, batch_size=1)
    sizes: list[int] = []
    forward = fusion.vision_features

    def counted(pixels: torch.Tensor) -> torch.Tensor:
        sizes.append(len(pixels))
        return forward(pixels)

    monkeypatch.setattr(fusion, "vision_features", counted)
    fusion.encode_sections(sample_images()[:1], [TEXTS])
    assert sizes == [1]


def test_order_is_kept_where_batches_are_sorted_by_length(blip2_folder: Path) -> None:
    whole, single = QFormerFusion.load(blip2_folder), QFormerFusion.load(blip2_folder, batch_size=1)
    torch.testing.assert_close(
        single.encode(sample_images(), TEXTS), whole.encode(sample_images(), TEXTS), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_close(blip2_folder: Path, dtype: torch.dtype) -> None:
    half = QFormerFusion.load(blip2_folder, dtype=dtype)
    assert {p.dtype for p in half.parameters()} == {dtype}
    found, exact = half.encode(sample_images(), TEXTS), QFormerFusion.load(blip2_folder).encode(sample_images(), TEXTS)
    assert found.dtype == torch.float32
    assert functional.cosine_similarity(found, exact, dim=-1).min() > 0.99


def test_saved_as_ours_it_stays_the_same(blip2_folder: Path, tmp_path: Path) -> None:
    fusion = QFormerFusion.load(blip2_folder)
    fusion.save(tmp_path)
    again = QFormerFusion.load(tmp_path)
    assert again.vision_norm.eps == 1e-6
    assert again.pixels == fusion.pixels == PixelPreparation(SIZE, exact=True)
    assert torch.equal(again.encode(sample_images(), TEXTS), fusion.encode(sample_images(), TEXTS))


def test_a_buffer_of_older_checkpoints_is_passed_over(folder: Path) -> None:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    save_file({"embeddings.position_ids": torch.arange(20)[None]}, folder / "model-extra.safetensors")
    index["weight_map"]["embeddings.position_ids"] = "model-extra.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    fusion = QFormerFusion.load(folder)
    assert set(fusion.embeddings.state_dict()) == {"word_embeddings.weight", "position_embeddings.weight"}


def renamed(folder: Path, rename: Callable[[str], str]) -> None:
    """Renames the tensors of a sharded checkpoint."""
    weight_map: dict[str, str] = {}
    for shard in folder.glob("model-*.safetensors"):
        tensors = {rename(name): tensor for name, tensor in load_file(shard).items()}
        save_file(tensors, shard, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, shard.name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_an_older_revision_has_other_names_for_its_heads(folder: Path, blip2_folder: Path) -> None:
    renamed(
        folder,
        lambda name: name.replace("vision_projection.", "vision_proj.").replace("text_projection.", "text_proj."),
    )
    assert torch.equal(
        QFormerFusion.load(folder).encode(sample_images(), TEXTS),
        QFormerFusion.load(blip2_folder).encode(sample_images(), TEXTS),
    )


def test_one_of_the_first_revisions_is_recognized(folder: Path) -> None:
    renamed(folder, lambda name: f"qformer.{name}" if name.startswith("embeddings.") else name)
    expected = (
        r"the weights contain qformer\.embeddings\.\S+, a name from the first revisions .* the revision that configs"
    )
    with pytest.raises(ValueError, match=expected):
        QFormerFusion.load(folder)


def test_missing_and_unexpected_weights_are_named(folder: Path) -> None:
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    tensors = load_file(shard)
    gone = next(name for name in tensors if not name.startswith(("text_proj", "vision_proj", "itm")))
    tensors["language_model.head.weight"] = tensors.pop(gone).clone()
    save_file(tensors, shard, {"format": "pt"})
    with pytest.raises(ValueError, match=r"missing: .*; unexpected: language_model\.head\.weight") as error:
        QFormerFusion.load(folder)
    assert gone in str(error.value)
    shard.unlink()
    with pytest.raises(ValueError, match=f"{shard.name}: not found"):
        QFormerFusion.load(folder)


def test_a_weight_of_another_shape_is_named(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["qformer_config"]["vocab_size"] += 1
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"embeddings\.word_embeddings\.weight: expected \[19, 16\], got \[18, 16\]"):
        QFormerFusion.load(folder)


def test_a_blip2_that_reads_no_text_is_refused(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["qformer_config"]["use_qformer_text_input"]
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config\.json: qformer_config\.use_qformer_text_input"):
        QFormerFusion.load(folder)
