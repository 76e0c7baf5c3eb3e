"""The fusion encoder: saving and loading, batches and single inputs, and that both image and text affect its tokens."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.nn import functional
from transformers import Blip2QFormerConfig, Blip2QFormerModel
from transformers.models.blip_2.modeling_blip_2 import Blip2TextEmbeddings

from pretraining.new_fusion import new_fusion
from pretraining.tokenizer import train_tokenizer
from retriever.models.fused_qformer import FusedLayers
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_layers import QFormer, QFormerConfig
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from tests.fakes.unread_device import DEVICE, UnreadDevice

SMALL = QFormerConfig(
    hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=32, encoder_hidden_size=16
)
TEXTS = ["a red flag", "the capital is paris and it lies by a river", "what is it", "how tall"]
IMAGES = [Image.new("RGB", (40, 30), color) for color in ("red", "blue", "green", "yellow")]


def small_fusion(layers: int, seed: int) -> QFormerFusion:
    torch.manual_seed(seed)
    config = SmallCLIPConfig(image_size=32, channels=(8, 8, 16, 16), vision_heads=2)
    tokenizer = train_tokenizer(TEXTS, 200, 24)
    return new_fusion(
        SmallVision(config), config, tokenizer, PixelPreparation(32), hidden_size=32, layers=layers, max_text_tokens=24
    )


@pytest.fixture(scope="module")
def fusion() -> QFormerFusion:
    return small_fusion(layers=3, seed=0)


def test_one_vector_a_query_token(fusion: QFormerFusion) -> None:
    tokens = fusion.encode(IMAGES, TEXTS)
    assert tokens.shape == (4, *fusion.token_shape) == (4, 32, 32)
    assert tokens.dtype == torch.float32


def test_nothing_gives_nothing(fusion: QFormerFusion) -> None:
    assert fusion.encode([], []).shape == (0, 32, 32)
    assert fusion.encode_sections(IMAGES[:2], [[], []]).shape == (0, 32, 32)


def test_saved_and_loaded_gives_the_same(fusion: QFormerFusion, tmp_path: Path) -> None:
    fusion.save(tmp_path)
    loaded = QFormerFusion.load(tmp_path)
    assert torch.equal(loaded.encode(IMAGES, TEXTS), fusion.encode(IMAGES, TEXTS))
    assert len(loaded.fingerprint) == 16


def test_the_mean_of_each_token_is_subtracted_and_kept(fusion: QFormerFusion, tmp_path: Path) -> None:
    plain = fusion.encode(IMAGES, TEXTS)
    assert fusion.token_mean is not None and not fusion.token_mean.any()  # zero until training sets it
    fusion.save(tmp_path)
    centered = QFormerFusion.load(tmp_path)
    assert centered.token_mean is not None
    centered.token_mean.copy_(plain.mean(0, keepdim=True))
    expected = plain - plain.mean(0, keepdim=True)
    torch.testing.assert_close(centered.encode(IMAGES, TEXTS), expected, atol=1e-5, rtol=0)
    centered.save(tmp_path / "centered")
    again = QFormerFusion.load(tmp_path / "centered")
    torch.testing.assert_close(again.encode(IMAGES, TEXTS), expected, atol=1e-5, rtol=0)


def test_half_precision_on_disk_stays_close(fusion: QFormerFusion, tmp_path: Path) -> None:
    fusion.save(tmp_path, dtype=torch.float16)
    loaded = QFormerFusion.load(tmp_path)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    difference = (loaded.encode(IMAGES, TEXTS) - fusion.encode(IMAGES, TEXTS)).abs().max()
    assert 0 < difference < 0.02


def test_batched_equals_single(fusion: QFormerFusion) -> None:
    together = fusion.encode(IMAGES, TEXTS)
    for i, (image, text) in enumerate(zip(IMAGES, TEXTS, strict=True)):
        torch.testing.assert_close(fusion.encode([image], [text])[0], together[i], atol=1e-5, rtol=1e-4)


def test_batches_do_not_matter(fusion: QFormerFusion, tmp_path: Path) -> None:
    fusion.save(tmp_path)
    small = QFormerFusion.load(tmp_path, batch_size=3)
    torch.testing.assert_close(small.encode(IMAGES, TEXTS), fusion.encode(IMAGES, TEXTS))


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_sections_of_many_images_are_those_of_each(fusion: QFormerFusion, tmp_path: Path, batch_size: int) -> None:
    fusion.save(tmp_path)
    batched = QFormerFusion.load(tmp_path, batch_size=batch_size)
    images, texts = IMAGES, [[TEXTS[1], TEXTS[2], ""], [], [TEXTS[0]], [TEXTS[3], TEXTS[1] * 3]]
    alone = torch.cat(
        [fusion.encode([image], [text]) for image, own in zip(images, texts, strict=True) for text in own]
    )
    torch.testing.assert_close(batched.encode_sections(images, texts), alone, atol=1e-5, rtol=0)


def test_padding_does_not_matter(fusion: QFormerFusion) -> None:
    ids, mask = fusion.tokenize([TEXTS[2]])
    with torch.no_grad():
        features = fusion.vision_features(fusion.pixels(IMAGES[:1]))
        expected = fusion.fuse_tokens(features, ids, mask)
        ids, mask = functional.pad(ids, (0, 3), value=5), functional.pad(mask, (0, 3))
        torch.testing.assert_close(fusion.fuse_tokens(features, ids, mask), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_layers_return_the_same(fusion: QFormerFusion, tmp_path: Path, dtype: torch.dtype) -> None:
    fusion.save(tmp_path)
    plain, fused = (QFormerFusion.load(tmp_path, dtype=dtype, fused=fused) for fused in (False, True))
    features = torch.randn(4, 5, 16).to(dtype)
    for texts in (TEXTS, [TEXTS[0]] * 4):  # with padding and without
        given = features, *plain.tokenize(texts)
        with torch.inference_mode():
            torch.testing.assert_close(fused.fuse_tokens(*given), plain.fuse_tokens(*given))
    fused.save(tmp_path / "again")
    assert QFormerFusion.load(tmp_path / "again").state_dict().keys() == plain.state_dict().keys()
    fused.train().fuse_tokens(*given).sum().backward()
    assert fused.query_tokens.grad is not None


def test_text_and_image_both_change_the_tokens(fusion: QFormerFusion) -> None:
    red, blue = IMAGES[:2]
    base, other_text, other_image = fusion.encode([red, red, blue], [TEXTS[2], TEXTS[3], TEXTS[2]])
    assert (base - other_text).abs().max() > 1e-3
    assert (base - other_image).abs().max() > 1e-4


def test_long_texts_are_cut(fusion: QFormerFusion) -> None:
    image = IMAGES[0]
    torch.testing.assert_close(fusion.encode([image], ["red " * 22]), fusion.encode([image], ["red " * 500]))


def test_as_many_texts_as_images(fusion: QFormerFusion) -> None:
    with pytest.raises(ValueError, match="got 4 and 1"):
        fusion.encode(IMAGES, ["one"])
    with pytest.raises(ValueError, match="got 4 and 1"):
        fusion.encode_sections(IMAGES, [["one"]])


def test_a_folder_that_does_not_fit_is_refused(fusion: QFormerFusion, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="safetensors"):
        QFormerFusion.load(tmp_path)
    fusion.save(tmp_path)
    words = tmp_path / "tokenizer.json"
    before = json.loads(words.read_text())
    before["model"]["vocab"]["neoword"] = 900
    words.write_text(json.dumps(before))
    with pytest.raises(ValueError, match=r"its tokenizer has a token 900, but its embedding ends at \d+; copy"):
        QFormerFusion.load(tmp_path)
    fusion.save(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"queries": 16}))
    with pytest.raises(ValueError, match=r"query_tokens: expected \[1, 16, 32\], got \[1, 32, 32\]"):
        QFormerFusion.load(tmp_path)
    path.write_text(json.dumps(config | {"vision": {"kind": "other"}}))
    with pytest.raises(ValueError, match=r"vision\.kind: must be one of small_clip, blip2, got 'other'"):
        QFormerFusion.load(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match="not found"):
        QFormerFusion.load(tmp_path)


def reference(model: QFormerFusion) -> Blip2QFormerModel:
    """Returns transformers' Q-Former with the weights of `model`."""
    whole: Blip2QFormerModel = Blip2QFormerModel(
        Blip2QFormerConfig(**asdict(model.config), use_qformer_text_input=True)
    )
    whole.load_state_dict(model.qformer.state_dict())
    return whole


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_tokens_are_those_of_transformers(layers: int) -> None:
    model = small_fusion(layers, seed=layers)
    ids, mask = model.tokenize(TEXTS)
    features = torch.randn(4, 5, 16)
    queries = model.query_tokens.expand(4, -1, -1)
    sizes = Blip2QFormerConfig(vocab_size=len(model.tokenizer), hidden_size=32, max_position_embeddings=24)
    embeddings = Blip2TextEmbeddings(sizes)
    embeddings.load_state_dict(model.embeddings.state_dict())
    whole = reference(model)(
        query_embeds=embeddings(input_ids=ids, query_embeds=queries),
        query_length=32,
        attention_mask=torch.cat([mask.new_ones(4, 32), mask], dim=1),
        encoder_hidden_states=model.vision_norm(features),
    ).last_hidden_state[:, :32]
    fused = model.fuse_tokens(features, ids, mask)
    torch.testing.assert_close(fused, whole, atol=1e-5, rtol=1e-5)
    one, other = (torch.autograd.grad(tokens.square().sum(), model.query_tokens)[0] for tokens in (fused, whole))
    torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)


def test_weights_start_as_those_of_transformers() -> None:
    """A training with the same seed gives the model that it gave with transformers' modules."""
    torch.manual_seed(0)
    theirs = Blip2QFormerModel(Blip2QFormerConfig(**asdict(SMALL), use_qformer_text_input=True))
    torch.manual_seed(0)
    ours = QFormer(SMALL)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert all(torch.equal(tensor, theirs.state_dict()[name]) for name, tensor in ours.state_dict().items())


def test_defaults_are_those_of_transformers() -> None:
    published = Blip2QFormerConfig().to_dict()
    assert asdict(QFormerConfig()).items() <= published.items()
    assert QFormerConfig.read(published) == QFormerConfig()


def test_dropout_drops_while_training_only() -> None:
    torch.manual_seed(0)
    for config in (replace(SMALL, hidden_dropout_prob=0.0), replace(SMALL, attention_probs_dropout_prob=0.0)):
        layers = QFormer(config)
        given = torch.randn(2, 9, 24), 4, torch.ones(2, 5, dtype=torch.int64), torch.randn(2, 6, 16)
        assert not torch.equal(layers.train()(*given), layers(*given))
        assert torch.equal(layers.eval()(*given), layers(*given))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"hidden_act": "relu"}, r"config\.json: qformer: hidden_act: must be 'gelu', got 'relu'"),
        ({"position_embedding_type": "relative_key"}, "must be 'absolute', got 'relative_key'"),
        ({"num_attention_heads": 5}, "hidden_size must be a multiple of num_attention_heads, got 32 and 5"),
    ],
)
def test_another_kind_of_qformer_is_refused(
    fusion: QFormerFusion, tmp_path: Path, setting: dict[str, object], said: str
) -> None:
    fusion.save(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"qformer": config["qformer"] | setting}))
    with pytest.raises(ValueError, match=said):
        QFormerFusion.load(tmp_path)


@pytest.mark.parametrize("fused", [False, True])
def test_a_device_is_not_waited_for(fused: bool) -> None:
    model = small_fusion(layers=2, seed=0).to(DEVICE)
    model.batch_size = 2
    if fused:
        model._fused = FusedLayers(model.qformer)
    with UnreadDevice() as device:
        tokens = [
            model.encode(IMAGES, TEXTS),
            model.encode(IMAGES[:1], TEXTS[:1]),
            model.encode_sections(IMAGES, [TEXTS, [], TEXTS[1:], TEXTS[:1]]),
        ]
    assert [len(part) for part in tokens] == [4, 1, 8]
    assert device.reads == 0
