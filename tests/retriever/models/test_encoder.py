from __future__ import annotations

import hashlib
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from PIL import Image
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPModel,
    CLIPTokenizer,
    SiglipConfig,
    SiglipModel,
    SiglipTokenizer,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from pretraining.tokenizer import train_tokenizer
from retriever.models.encoder import ClipEncoder, encoder_fingerprint
from retriever.models.eva_clip import EvaCLIP
from retriever.models.eva_weights import eva_config, eva_sources
from retriever.models.folder import folder_fingerprint
from retriever.models.padding import _padded
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from tests.fakes.unread_device import DEVICE, UnreadDevice
from tests.paths import ROOT

TEXTS = ["a red flag", "three bands of blue, white and red", "green"]


def sample_images(count: int = 3) -> list[Image.Image]:
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
    np.testing.assert_array_equal(loaded.encode_images(sample_images()), encoder.encode_images(sample_images()))
    np.testing.assert_array_equal(loaded.encode_texts(TEXTS), encoder.encode_texts(TEXTS))
    assert loaded.fingerprint == ClipEncoder.load(tmp_path).fingerprint
    encoder.save(tmp_path, torch.float16)
    halved = ClipEncoder.load(tmp_path)
    assert halved.fingerprint != loaded.fingerprint
    np.testing.assert_allclose(halved.encode_texts(TEXTS), encoder.encode_texts(TEXTS), atol=5e-3)


def test_batched_is_single_and_unit_length() -> None:
    encoder = small_encoder()
    encoder.batch_size = 2
    together = encoder.encode_images(sample_images())
    single = torch.cat([encoder.encode_images([image]) for image in sample_images()])
    np.testing.assert_allclose(together, single, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    texts = encoder.encode_texts(TEXTS)
    np.testing.assert_allclose(
        texts, torch.cat([encoder.encode_texts([text]) for text in TEXTS]), atol=1e-6
    )  # padding has no effect


def test_keys_are_the_mean_over_sizes(tmp_path: Path) -> None:
    encoder = small_encoder()
    np.testing.assert_array_equal(encoder.encode_keys(sample_images()), encoder.encode_images(sample_images()))
    encoder.save(tmp_path)
    smaller = ClipEncoder.load(tmp_path)
    smaller.model.resize_images(16)
    smaller.pixels = PixelPreparation(16)
    mean = (smaller.encode_images(sample_images()) + encoder.encode_images(sample_images())).numpy() / 2
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)

    sized = ClipEncoder.load(tmp_path, batch_size=2, key_sizes=(16, 32))
    np.testing.assert_allclose(sized.encode_keys(sample_images()), expected, atol=1e-5)
    np.testing.assert_allclose(sized.encode_keys(sample_images()[:1]), expected[:1], atol=1e-5)
    np.testing.assert_allclose(sized.encode_images(sample_images()), encoder.encode_images(sample_images()), atol=1e-6)
    assert sized.encode_keys([]).shape == (0, 128)
    assert (
        sized.fingerprint
        == encoder_fingerprint(tmp_path, key_sizes=(16, 32))
        == folder_fingerprint(tmp_path) + "-keys16+32"
    )
    half = ClipEncoder.load(tmp_path, dtype=torch.bfloat16, key_sizes=(16, 32)).encode_keys(sample_images())
    assert (half * torch.from_numpy(expected)).sum(-1).min() > 0.99


def test_every_file_that_is_read_counts_in_a_fingerprint(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    seen = [folder_fingerprint(tmp_path)]
    names = ("config.json", "chat_template.jinja", "vocab.txt", "merges.txt", "spiece.model", "tokenizer.json")
    for name in names:
        for content in ("a", "b"):
            (tmp_path / name).write_text(content)
            seen.append(folder_fingerprint(tmp_path))
    assert len({*seen}) == len(seen)
    for name in ("vocab.txt", "merges.txt", "spiece.model", "README.md", "training.json"):
        (tmp_path / name).write_text("c")  # beside tokenizer.json, no vocabulary is read
        assert folder_fingerprint(tmp_path) == seen[-1]


def test_other_models_have_no_key_sizes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert encoder_fingerprint(tmp_path, key_sizes=(16, 32)) == folder_fingerprint(tmp_path)


def test_nothing_in_nothing_out_and_long_text_is_cut() -> None:
    encoder = small_encoder(max_tokens=8)
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 128)
    assert encoder.tokenize(["red " * 50])["input_ids"].shape == (1, 8)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no \.safetensors file"):
        ClipEncoder.load(tmp_path)


def test_squash_keeps_all_and_crop_keeps_the_middle(tmp_path: Path) -> None:
    wide = Image.new("RGB", (60, 20), "red")
    wide.paste((0, 0, 255), (20, 0, 40, 20))  # thirds: red, blue, red
    squashed = PixelPreparation(30).to_uint8([wide])[0]
    assert squashed[:, 15, 2].tolist() == [255, 0, 0]
    assert squashed[:, 15, 15].tolist() == [0, 0, 255]
    cropped = PixelPreparation(30, crop=True).to_uint8([wide])[0]
    assert (cropped[2] > 200).float().mean() > 0.9  # only the blue third
    # (0.5 - mean) / std of CLIP's first channel
    gray = PixelPreparation(4).normalize(torch.full((1, 3, 4, 4), 0.5))
    assert gray[0, 0, 0, 0].item() == pytest.approx((0.5 - 0.48145466) / 0.26862954)
    PixelPreparation(30, crop=True).save(tmp_path)
    assert PixelPreparation.load(tmp_path) == PixelPreparation(30, crop=True)


def random_images() -> list[Image.Image]:
    """Returns images of odd sizes, panoramas, and gray and palette images."""
    rng = np.random.default_rng(0)
    sizes = [(224, 224), (301, 223), (97, 411), (1200, 130), (130, 1200), (1023, 767), (2, 3)]
    color = [Image.fromarray(rng.integers(0, 255, (h, w, 3), dtype=np.uint8)) for w, h in sizes]
    return [*color, color[1].convert("L"), color[2].convert("P")]


def test_images_are_prepared_as_transformers_does() -> None:
    images = random_images()
    clip = torch.from_numpy(np.stack(CLIPImageProcessorPil()(images)["pixel_values"]))
    torch.testing.assert_close(PixelPreparation(224, crop=True)(images), clip, atol=1e-6, rtol=0)
    siglip = torch.from_numpy(np.stack(SiglipImageProcessorPil()(images)["pixel_values"]))
    half = (0.5, 0.5, 0.5)
    torch.testing.assert_close(PixelPreparation(224, False, half, half, True)(images), siglip, atol=1e-6, rtol=0)
    # Transparency becomes white, as in transformers 5.
    clear = images[1].convert("RGBA")
    clear.putalpha(100)
    on_white = torch.from_numpy(np.stack(CLIPImageProcessorPil()([clear])["pixel_values"]))
    torch.testing.assert_close(PixelPreparation(224, crop=True)([clear]), on_white, atol=1e-6, rtol=0)


def test_the_shortcut_of_the_embedded_models_stays_near() -> None:
    big = random_images()[5].resize((3000, 2000), Image.Resampling.BICUBIC)
    exact, quick = (PixelPreparation(64, exact=exact).to_uint8([big]).int() for exact in (True, False))
    assert 0 < (exact - quick).abs().max() <= 5


def test_preparations_are_read_from_what_transformers_writes(tmp_path: Path) -> None:
    CLIPImageProcessorPil().save_pretrained(tmp_path)
    assert PixelPreparation.load(tmp_path) == PixelPreparation(
        224, crop=True, exact=PixelPreparation.load(tmp_path).exact
    )
    SiglipImageProcessorPil(size={"height": 256, "width": 256}, resample=2).save_pretrained(tmp_path)
    half = (0.5, 0.5, 0.5)
    assert PixelPreparation.load(tmp_path) == PixelPreparation(256, False, half, half, True, Image.Resampling.BILINEAR)
    for given in (PixelPreparation(32), PixelPreparation(32, exact=True), PixelPreparation(32, crop=True)):
        given.save(tmp_path)
        assert PixelPreparation.load(tmp_path) == given
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"do_center_crop": True, "size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}})
    )
    with pytest.raises(ValueError, match=r"size, crop_size: expected one number of pixels for all sides"):
        PixelPreparation.load(tmp_path)


def clip_tokenizer() -> CLIPTokenizer:
    """Returns a CLIP-style tokenizer of letters; as in CLIP, the end of text has the highest id."""
    letters = [chr(c) for c in range(33, 127)]
    pieces = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer({piece: number for number, piece in enumerate(pieces)}, [], model_max_length=16)


def unit(features: Any) -> torch.Tensor:
    vectors: torch.Tensor = getattr(features, "pooler_output", features)
    normalized: torch.Tensor = vectors / vectors.norm(dim=-1, keepdim=True)
    return normalized


SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def clip_folder(folder: Path) -> tuple[CLIPModel, CLIPTokenizer, CLIPImageProcessorPil]:
    """Writes a tiny CLIP of transformers with random weights, and returns its parts."""
    torch.manual_seed(0)
    tokenizer = clip_tokenizer()
    text = {
        **SIZES,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 16,
        "eos_token_id": tokenizer.eos_token_id,
    }
    text |= {"bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}
    vision = {**SIZES, "image_size": 32, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)).eval()
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=32)
    for part in (model, tokenizer, processor):
        part.save_pretrained(folder)
    return model, tokenizer, processor


def test_transformers_own_pipeline_for_clip_gives_the_same_vectors(tmp_path: Path) -> None:
    model, tokenizer, processor = clip_folder(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=2)
    pixels = torch.from_numpy(np.stack(processor(random_images())["pixel_values"]))
    texts = [*TEXTS, "a text that is longer than the tower reads"]
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        images, words = unit(model.get_image_features(pixels)), unit(model.get_text_features(**inputs))
    torch.testing.assert_close(encoder.encode_images(random_images()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(texts), words, atol=1e-5, rtol=0)
    half = ClipEncoder.load(tmp_path, dtype=torch.bfloat16).encode_images(random_images())
    assert half.dtype == torch.float32
    assert (half * images).sum(-1).min() > 0.99


def test_transformers_own_pipeline_for_siglip_gives_the_same_vectors(tmp_path: Path) -> None:
    spm = pytest.importorskip("sentencepiece")
    torch.manual_seed(0)
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=written, vocab_size=40, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    (tmp_path / "spiece.model").write_bytes(written.getvalue())
    tokenizer = SiglipTokenizer(str(tmp_path / "spiece.model"), model_max_length=24)
    ids = {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 1}
    text = {**SIZES, **ids, "vocab_size": len(tokenizer), "max_position_embeddings": 24}
    vision = {**SIZES, "image_size": 32, "patch_size": 8}
    model = SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).eval()
    processor = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    for part in (model, tokenizer, processor):
        part.save_pretrained(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=2)
    pixels = torch.from_numpy(np.stack(processor(random_images())["pixel_values"]))
    texts = [*TEXTS, "a red flag " * 10]
    inputs = tokenizer(texts, padding="max_length", truncation=True, max_length=24, return_tensors="pt")
    with torch.no_grad():
        images, words = unit(model.get_image_features(pixels)), unit(model.get_text_features(inputs["input_ids"]))
    assert encoder.dimension == 16
    torch.testing.assert_close(encoder.encode_images(random_images()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(texts), words, atol=1e-5, rtol=0)
    windowed = ClipEncoder.load(tmp_path, long_texts="windows")
    torch.testing.assert_close(windowed.encode_texts(texts)[:3], words[:3], atol=1e-5, rtol=0)  # these are short
    assert not torch.allclose(windowed.encode_texts(texts)[3], words[3], atol=1e-2)


def test_the_extra_for_siglip_has_what_its_tokenizer_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {Requirement(one).name for one in extras["sentencepiece"]} == {"sentencepiece", "protobuf"}
    small_encoder().save(tmp_path)

    def without_protobuf(folder: Path) -> None:
        raise ImportError("SiglipTokenizer requires protobuf")

    monkeypatch.setattr("retriever.models.encoder_folder.load_tokenizer", without_protobuf)
    with pytest.raises(ValueError, match=r"pip install 'omgm\[sentencepiece\]': SiglipTokenizer requires protobuf"):
        ClipEncoder.load(tmp_path)


def eva_folder(folder: Path) -> EvaCLIP:
    """Writes a tiny EVA-CLIP with random weights in the format of EVA's repository, and returns it."""
    torch.manual_seed(0)
    tokenizer = clip_tokenizer()
    tokenizer.save_pretrained(folder)
    vision = {"image_size": 28, "patch_size": 14, "width": 16, "head_width": 8, "layers": 2, "mlp_ratio": 5}
    vision |= {"qkv_bias": False, "use_rms_norm": True}
    text = {"context_length": 16, "vocab_size": len(tokenizer), "width": 16, "heads": 2, "layers": 1}
    settings = {"embed_dim": 12, "vision_cfg": vision, "text_cfg": text}
    (folder / "config.json").write_text(json.dumps(settings))
    config = eva_config(settings)
    model = EvaCLIP(config).eval()
    state = {}
    for name, tensor in model.state_dict().items():
        (source,) = eva_sources(name)
        assert source is not None
        state[source] = tensor.T.contiguous() if name == "text.projection.weight" else tensor
    save_file(state, folder / "model.safetensors")
    return model


def test_eva_clip_gets_clips_preparation_and_tokens(tmp_path: Path) -> None:
    model = eva_folder(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=2)
    processor = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size=28)
    pixels = torch.from_numpy(np.stack(processor(random_images())["pixel_values"]))
    texts = [*TEXTS, "a text that is longer than the tower reads"]
    # The published way: no mask, padding by the tokenizer's own token.
    ids = clip_tokenizer()(texts, padding=True, truncation=True, max_length=16, return_tensors="pt").input_ids
    with torch.no_grad():
        images, words = unit(model.get_image_features(pixels)), unit(model.get_text_features(ids))
    torch.testing.assert_close(encoder.encode_images(random_images()), images, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(texts), words, atol=1e-5, rtol=0)
    assert encoder.dimension == 12
    for file in tmp_path.glob("*token*"):
        file.unlink()
    with pytest.raises(ValueError, match="has no tokenizer"):
        ClipEncoder.load(tmp_path)


def test_long_texts_are_read_in_windows(tmp_path: Path) -> None:
    eva_folder(tmp_path)
    encoder = ClipEncoder.load(tmp_path, batch_size=3, long_texts="windows")
    letters = "abcdefghijklmnopqrstuvwxyzabcdefgh"  # 34 tokens, of which 14 fit between the two special ones
    tokenizer = clip_tokenizer()
    ids = tokenizer(letters, add_special_tokens=False)["input_ids"]
    windows = [[tokenizer.bos_token_id, *ids[i : i + 14], tokenizer.eos_token_id] for i in (0, 14, 28)]
    with torch.no_grad():
        vectors = [unit(encoder.model.get_text_features(torch.tensor([window])))[0] for window in windows]
    mean = (16 * vectors[0] + 16 * vectors[1] + 8 * vectors[2]) / 40
    texts = ["short", letters, "", letters[::-1]]
    together = encoder.encode_texts(texts)
    torch.testing.assert_close(together[1], mean / mean.norm(), atol=1e-5, rtol=0)
    single = torch.cat([encoder.encode_texts([text]) for text in texts])
    torch.testing.assert_close(together, single, atol=1e-6, rtol=0)
    cut = ClipEncoder.load(tmp_path)
    torch.testing.assert_close(cut.encode_texts(texts)[1], vectors[0], atol=1e-5, rtol=0)
    assert encoder.fingerprint == encoder_fingerprint(tmp_path, "windows") == cut.fingerprint + "-windows"


def test_clips_vocabulary_gives_the_ids_of_open_clip() -> None:
    open_clip = pytest.importorskip("open_clip")
    published = open_clip.SimpleTokenizer()
    names = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {names.get(piece, piece): number for piece, number in published.encoder.items()}
    merges = sorted(published.bpe_ranks, key=published.bpe_ranks.__getitem__)
    tokenizer = CLIPTokenizer(vocabulary, [pair for pair in merges if len(pair) == 2], model_max_length=77)
    texts = ["A red flag.", "Côte d'Ivoire, 322,463 km²; it's  big", "São Tomé & Príncipe " * 30, ""]
    rows = tokenizer(texts, truncation=True, max_length=77)["input_ids"]
    for row, expected in zip(rows, published(texts).tolist(), strict=True):
        assert row == expected[: len(row)]
        assert not any(expected[len(row) :])


def test_a_file_of_the_hubs_cache_is_known_by_its_name(tmp_path: Path) -> None:
    weights = b"weights" * 100
    name = hashlib.sha256(weights).hexdigest()
    plain, snapshot, blobs = (tmp_path / folder for folder in ("plain", "snapshot", "blobs"))
    for folder in (plain, snapshot, blobs):
        folder.mkdir()
    (plain / "model.safetensors").write_bytes(weights)
    (blobs / name).write_bytes(weights)
    (snapshot / "model.safetensors").symlink_to(Path("..") / "blobs" / name)
    (plain / "config.json").write_text("{}")
    (blobs / ("a" * 40)).write_text("{}")  # small files are named by their git hash
    (snapshot / "config.json").symlink_to(Path("..") / "blobs" / ("a" * 40))
    assert folder_fingerprint(snapshot) == folder_fingerprint(plain)
    # Its bytes are not read: different content under the same name goes unnoticed.
    (blobs / name).write_bytes(b"changed")
    assert folder_fingerprint(snapshot) == folder_fingerprint(plain)
    (plain / "model.safetensors").write_bytes(b"changed")
    assert folder_fingerprint(snapshot) != folder_fingerprint(plain)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, r"neither a config\.json with a model_type nor an open_clip_config\.json"),
        ({"model_type": "siglip2"}, r"config\.json: model_type: siglip2: .*a fixed image size"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path: Path, config: dict[str, str] | None, message: str) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        ClipEncoder.load(tmp_path)


def test_a_model_without_two_towers_is_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = BertConfig.from_dict(sizes | {"intermediate_size": 8, "max_position_embeddings": 8})
    BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"model_type: bert does not embed images and texts in one space"):
        ClipEncoder.load(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["small", "clip", "siglip", "eva"])
def test_a_device_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    encoder = small_encoder()
    sizes: dict[str, Any] = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    text = {"vocab_size": 200, "max_position_embeddings": 16, "projection_size": 24, "eos_token_id": 2} | sizes
    vision = {"image_size": 32, "patch_size": 8} | sizes
    if kind == "clip":  # attends to earlier tokens
        encoder.model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)).eval()
    elif kind == "siglip":  # reads padding, without a mask
        config = SiglipConfig(text_config=text | {"projection_size": 32}, vision_config=vision)
        encoder.model, encoder.fixed_length = SiglipModel(config).eval(), True
    elif kind == "eva":
        eva_folder(tmp_path)
        encoder = ClipEncoder.load(tmp_path)
    else:
        encoder.key_pixels = [PixelPreparation(16), PixelPreparation(32)]
    encoder.batch_size = 2
    encoder.model.to(DEVICE)
    texts = [*TEXTS, "", "red " * 40]
    for encoder.long_texts in ("cut", "windows"):
        with UnreadDevice() as device:
            vectors = [
                encoder.encode_images(sample_images()), encoder.encode_keys(sample_images()),
                encoder.encode_texts(texts), encoder.encode_texts(texts[:1]), encoder.encode_texts([]),
            ]  # fmt: skip
        assert [len(part) for part in vectors] == [3, 3, 5, 1, 0]
        assert device.reads == 0


def test_texts_keep_their_order_and_masks_of_fixed_lengths_are_used() -> None:
    encoder = small_encoder()
    encoder.batch_size = 2
    texts = ["red " * n for n in (9, 1, 5, 3, 7)]
    single = torch.cat([encoder.encode_texts([text]) for text in texts])
    torch.testing.assert_close(encoder.encode_texts(texts), single, atol=1e-6, rtol=0)
    known: list[bool | None] = []

    def features(input_ids: torch.Tensor) -> torch.Tensor:
        known.append(_padded.get())
        return torch.ones(len(input_ids), 128)

    encoder.fixed_length = True  # such a model may build a mask of its own, from the ids
    encoder.model.get_text_features = features
    encoder.encode_texts(texts)
    assert known == [True] * 3
