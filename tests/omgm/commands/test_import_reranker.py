"""`omgm import reranker`: what it takes from the checkpoint and from the base, ignores, and refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer, BertTokenizer

from omgm.__main__ import main
from omgm.profile import load_profile
from retriever.models.lavis import from_lavis, lavis_settings, lavis_sources
from retriever.models.qformer import QFormerFusion
from tests.lavis.ours import tiny_model, tiny_tokenizer
from tests.paths import GOLDEN_FILES

GOLDEN = GOLDEN_FILES / "qformer.safetensors"
STATE = {name.removeprefix("state."): tensor for name, tensor in load_file(GOLDEN).items() if name.startswith("state.")}
Capture = pytest.CaptureFixture[str]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuv"]
TOWER = {name for name in STATE if name.startswith("visual_encoder.")}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_model(tiny_tokenizer(WORDS, folder / "words"), seed=2).save(folder / "model")
    return folder / "model"


def checkpoint(folder: Path, state: object) -> Path:
    torch.save(state, folder / "model.pth")
    return folder / "model.pth"


def run(capsys: Capture, *args: object) -> dict[str, Any]:
    assert main(["import", "reranker", *map(str, args), "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def refused(capsys: Capture, *args: object) -> str:
    assert main(["import", "reranker", *map(str, args)]) == 2
    return capsys.readouterr().err


def test_lavis_is_told_by_its_form_and_squashes_images(base: Path, tmp_path: Path, capsys: Capture) -> None:
    file = checkpoint(tmp_path, {"model": STATE, "epoch": 3})
    report = run(capsys, file, "--base", base, "--out", tmp_path / "out")
    assert report["kind"] == "lavis"
    # 2 blocks of 12 tensors (queries' and values' biases make one) with class token, positions and a patch projection.
    # A layer has 10 for attention, 6 for each of two feed-forwards, 2 of 3 have 10 for cross-attention; and a norm.
    parts = {"embeddings": 2, "qformer": 2 * 32 + 22 + 2, "query_tokens": 1, "vision": 2 * 12 + 4, "vision_norm": 2}
    assert report["mapped"] == parts
    assert report["from_base"] == {}
    assert report["missing"] == []
    heads = ("temp", "itm_head.", "text_proj.", "vision_proj.", "Qformer.cls.", "Qformer.bert.embeddings.position_ids")
    assert report["ignored"] == sorted(name for name in STATE if name.startswith(heads))
    fusion = QFormerFusion.load(tmp_path / "out")
    assert (fusion.pixels.crop, fusion.pixels.target_ratio, fusion.pixels.exact) == (False, None, True)
    assert fusion.vision_norm.eps == 1e-5
    assert torch.equal(fusion.query_tokens, STATE["query_tokens"])


@pytest.mark.parametrize("kind", ["omgm", "echosight"])
def test_omgm_and_echosight_pad_images(kind: str, base: Path, tmp_path: Path, capsys: Capture) -> None:
    file = checkpoint(tmp_path, {**STATE, "prompt_tokens": torch.zeros(1, 32, 24)})
    assert "--kind omgm or --kind echosight" in refused(capsys, file, "--base", base, "--out", tmp_path / "out")
    report = run(capsys, file, "--kind", kind, "--base", base, "--out", tmp_path / "out")
    assert report["kind"] == kind
    assert "prompt_tokens" in report["ignored"]
    fusion = QFormerFusion.load(tmp_path / "out")
    assert (fusion.pixels.size, fusion.pixels.crop, fusion.pixels.target_ratio) == (16, True, 1.25)


def test_what_the_file_lacks_comes_from_the_base(base: Path, tmp_path: Path, capsys: Capture) -> None:
    trained = {name: tensor for name, tensor in STATE.items() if name not in TOWER}
    file = checkpoint(tmp_path, trained)
    report = run(capsys, file, "--kind", "omgm", "--base", base, "--out", tmp_path / "out")
    assert report["from_base"] == {"vision": 28}
    assert "vision" not in report["mapped"]
    found, theirs = QFormerFusion.load(tmp_path / "out").state_dict(), QFormerFusion.load(base).state_dict()
    assert all(torch.equal(found[name], theirs[name]) for name in theirs if name.startswith("vision."))
    assert torch.equal(found["query_tokens"], STATE["query_tokens"])


def test_half_precision_stays_as_it_is(base: Path, tmp_path: Path, capsys: Capture) -> None:
    state = {name: tensor.half() if name in TOWER else tensor for name, tensor in STATE.items()}
    file = checkpoint(tmp_path, {"model": state})
    run(capsys, file, "--base", base, "--out", tmp_path / "out")
    kept = load_file(tmp_path / "out" / "model.safetensors")
    assert {t.dtype for name, t in kept.items() if name.startswith("vision.")} == {torch.float16}
    assert {t.dtype for name, t in kept.items() if not name.startswith("vision.")} == {torch.float32}


def test_the_report_for_people_names_everything(base: Path, tmp_path: Path, capsys: Capture) -> None:
    file = checkpoint(tmp_path, {"model": STATE})
    assert main(["import", "reranker", str(file), "--base", str(base), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    for expected in ("121 tensors", "28 vision", "itm_head.weight", "missing    nothing", "--set fusion.model="):
        assert expected in said


def test_a_missing_weight_without_a_base_is_refused(tmp_path: Path, base: Path, capsys: Capture) -> None:
    state = wide()
    del state["Qformer.bert.encoder.layer.1.output.dense.bias"]
    file = checkpoint(tmp_path, {"model": state})
    said = refused(capsys, file, "--tokenizer", base, "--out", tmp_path / "out")
    assert "missing: Qformer.bert.encoder.layer.1.output.dense.bias; pass --base" in said
    assert not (tmp_path / "out").exists()


def test_the_tower_may_come_from_its_own_checkpoint(tmp_path: Path, base: Path, capsys: Capture) -> None:
    # LAVIS's blip2_pretrained.pth has no image tower; eva_vit_g.pth has one, with a block and heads that BLIP-2 lacks.
    whole = wide()
    file = checkpoint(tmp_path, {"model": {name: t for name, t in whole.items() if name not in TOWER}})
    args = (file, "--tokenizer", base, "--out", tmp_path / "out")
    assert "missing: visual_encoder.blocks.0.mlp.fc1.weight" in refused(capsys, *args)
    tower = {name.removeprefix("visual_encoder."): whole[name] + 1 for name in TOWER}
    last = {"blocks.39.norm1.weight": torch.zeros(176), "norm.weight": torch.zeros(176), "head.bias": torch.zeros(2)}
    torch.save(tower | last, tmp_path / "eva_vit_g.pth")
    report = run(capsys, *args, "--base", tmp_path / "eva_vit_g.pth")
    assert report["from_base"] == {"vision": 28}
    vision: Any = QFormerFusion.load(tmp_path / "out").vision
    assert bool((vision.embeddings.position_embedding == 1).all())
    torch.save({"other": torch.zeros(1)}, tmp_path / "eva_vit_g.pth")
    assert "has no pos_embed" in refused(capsys, *args, "--base", tmp_path / "eva_vit_g.pth")


def test_a_base_that_lacks_something_too_is_refused(tmp_path: Path, base: Path, capsys: Capture) -> None:
    state = wide()
    del state["visual_encoder.blocks.1.norm2.bias"]
    file = checkpoint(tmp_path, {"model": state})
    torch.save({"pos_embed": torch.zeros(1, 17, 176)}, tmp_path / "tower.pth")
    said = refused(capsys, file, "--tokenizer", base, "--base", tmp_path / "tower.pth", "--out", tmp_path / "out")
    assert "missing: visual_encoder.blocks.1.norm2.bias; pass --base" in said
    assert not (tmp_path / "out").exists()


def test_a_whole_checkpoint_needs_no_base(tmp_path: Path, base: Path, capsys: Capture) -> None:
    file = checkpoint(tmp_path, {"model": wide()})
    assert "--tokenizer" in refused(capsys, file, "--out", tmp_path / "out")
    report = run(capsys, file, "--tokenizer", base, "--out", tmp_path / "out")
    assert sum(report["from_base"].values()) == 0
    fusion = QFormerFusion.load(tmp_path / "out")
    assert fusion.config.num_attention_heads == 2
    vision: Any = fusion.vision
    assert vision.config.num_attention_heads == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"language_model.weight": torch.zeros(1)},
            "unexpected: language_model.weight; if this is a BLIP-2 with ViT-g and a Q-Former that does not need them, "
            "pass --ignore with each name or a pattern, such as --ignore 'language_model*'",
        ),
        ({"query_tokens": torch.zeros(1, 31, 24)}, "query_tokens: expected [1, 32, 24], got [1, 31, 24]"),
    ],
)
def test_other_weights_are_refused(
    change: dict[str, Tensor], expected: str, base: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = checkpoint(tmp_path, {"model": STATE | change})
    assert expected in refused(capsys, file, "--base", base, "--out", tmp_path / "out")


def test_another_vocabulary_is_refused(base: Path, tmp_path: Path, capsys: Capture) -> None:
    tiny_tokenizer(WORDS[:-1], tmp_path / "words").save_pretrained(tmp_path / "words")
    file = checkpoint(tmp_path, {"model": STATE})
    args = (file, "--base", base, "--tokenizer", tmp_path / "words", "--out", tmp_path / "out")
    assert "has 27 words, the model 28" in refused(capsys, *args)


def test_a_word_added_to_the_tokenizer_alone_is_accepted(base: Path, tmp_path: Path, capsys: Capture) -> None:
    # Newer revisions of the published tokenizer have <image>, for which neither LAVIS nor OMGM has a row of weights.
    shutil.copytree(base, tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    tokenizer.save_pretrained(tmp_path / "base")
    file = checkpoint(tmp_path, {"model": STATE})
    run(capsys, file, "--base", tmp_path / "base", "--out", tmp_path / "out")
    encoder = QFormerFusion.load(tmp_path / "out")
    assert len(encoder.tokenizer) == 29
    ids, _ = encoder.tokenize(["a <image> b"])
    assert ids.tolist() == [[2, 5, 1, 6, 3]]  # [CLS] a [UNK] b [SEP]
    assert encoder.encode([Image.new("RGB", (16, 16))], ["a <image> b"]).isfinite().all()


def test_a_base_with_a_row_for_one_more_word_is_accepted(base: Path, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(base, tmp_path / "base")
    settings = json.loads((base / "config.json").read_text())
    settings["qformer"]["vocab_size"] += 1
    (tmp_path / "base" / "config.json").write_text(json.dumps(settings))
    file = checkpoint(tmp_path, {"model": STATE})
    run(capsys, file, "--base", tmp_path / "base", "--out", tmp_path / "out")
    assert QFormerFusion.load(tmp_path / "out").config.vocab_size == 28


@pytest.mark.parametrize("kind", ["omgm", "echosight"])
def test_stray_weights_are_named_and_can_be_ignored(kind: str, base: Path, tmp_path: Path, capsys: Capture) -> None:
    # OMGM and EchoSight load their files with strict=False, so they may contain such keys.
    stray = {"proj_head.0.weight": torch.zeros(2), "proj_head.0.bias": torch.zeros(2), "epoch_loss": torch.zeros(1)}
    args = (checkpoint(tmp_path, STATE | stray), "--kind", kind, "--base", base, "--out", tmp_path / "out")
    assert "unexpected: epoch_loss, proj_head.0.bias, proj_head.0.weight; " in refused(capsys, *args)
    assert "unexpected: epoch_loss; " in refused(capsys, *args, "--ignore", "proj_head.*")
    report = run(capsys, *args, "--ignore", "proj_head.*", "--ignore", "epoch_loss")
    assert set(stray) < set(report["ignored"])
    # A tensor that the model needs is taken nevertheless.
    assert run(capsys, *args, "--ignore", "*")["mapped"]["query_tokens"] == 1


def test_the_model_of_the_profile_is_the_base(
    base: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = checkpoint(tmp_path, {"model": {name: tensor for name, tensor in STATE.items() if name not in TOWER}})
    out = tmp_path / "out"
    assert run(capsys, file, "--set", f"fusion.model={base}", "--out", out)["from_base"] == {"vision": 28}

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    pinned = load_profile("paper").fusion.model
    expected = (
        f"; the default base is {pinned}: not on this machine, or not all of it; run: omgm download --profile paper"
    )
    for more in ((), ("--tokenizer", base)):
        assert expected in refused(capsys, file, *more, "--out", out)
    assert expected not in refused(capsys, file, "--base", "none", "--out", out)
    # Downloaded at the commit in the profile, it is found without being named.
    commit = pinned.partition("@")[2]
    shutil.copytree(base, tmp_path / "cache" / "models--Salesforce--blip2-itm-vit-g" / "snapshots" / commit)
    assert run(capsys, file, "--out", out)["from_base"] == {"vision": 28}


def test_files_of_other_kinds_are_refused(base: Path, tmp_path: Path, capsys: Capture) -> None:
    rest = ("--base", base, "--out", tmp_path / "out")
    optimizer = checkpoint(tmp_path, {"epoch": 1, "optimizer_state_dict": {"state": {}}})
    assert "optimizer's checkpoint" in refused(capsys, optimizer, *rest)
    pickled = checkpoint(tmp_path, {"model": {"path": tmp_path}})
    told = refused(capsys, pickled, *rest)
    assert "not readable as a checkpoint with only tensors: it contains other objects, or is damaged" in told
    assert "weights_only" not in told  # PyTorch advises to load any object
    (tmp_path / "text.pth").write_text("no checkpoint")
    assert "not readable" in refused(capsys, tmp_path / "text.pth", *rest)
    assert "does not exist" in refused(capsys, tmp_path / "absent.pth", *rest)


def test_a_tokenizer_as_bert_has_it_gets_the_word_that_blip2_adds(base: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizer(str(tmp_path / "bert" / "vocab.txt")).save_pretrained(tmp_path / "bert")
    file = checkpoint(tmp_path, {"model": STATE})
    run(capsys, file, "--base", base, "--tokenizer", tmp_path / "bert", "--out", tmp_path / "out")
    tokenizer = QFormerFusion.load(tmp_path / "out").tokenizer
    assert isinstance(tokenizer, BertTokenizer)
    assert (len(tokenizer), tokenizer.bos_token, tokenizer.bos_token_id) == (28, "[DEC]", 27)


def test_an_older_file_format_is_read(base: Path, tmp_path: Path, capsys: Capture) -> None:
    torch.save({"model": STATE}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert run(capsys, tmp_path / "old.pth", "--base", base, "--out", tmp_path / "out")["kind"] == "lavis"


def test_the_bias_of_keys_is_zero() -> None:
    sources = lavis_sources("vision.encoder.layers.7.self_attn.qkv.bias")
    assert sources == ("visual_encoder.blocks.7.attn.q_bias", "visual_encoder.blocks.7.attn.v_bias")
    joined = from_lavis(sources, {sources[0]: torch.tensor([1.0, 2]), sources[1]: torch.tensor([3.0, 4])})
    assert joined.tolist() == [1, 2, 0, 0, 3, 4]


def test_sizes_of_the_published_checkpoint() -> None:
    # As published: ViT-g of 39 layers, 1408 wide, patches of 14 at 224 pixels (257 cells); BERT-base with 30,523 words.
    shapes = {
        "visual_encoder.patch_embed.proj.weight": (1408, 3, 14, 14),
        "visual_encoder.pos_embed": (1, 257, 1408),
        **{f"visual_encoder.blocks.{i}.mlp.fc1.weight": (6144, 1408) for i in range(39)},
        "Qformer.bert.embeddings.word_embeddings.weight": (30523, 768),
        "Qformer.bert.embeddings.position_embeddings.weight": (512, 768),
        **{f"Qformer.bert.encoder.layer.{i}.intermediate.dense.weight": (3072, 768) for i in range(12)},
        **{f"Qformer.bert.encoder.layer.{i}.crossattention.self.query.weight": (768, 768) for i in range(0, 12, 2)},
        "query_tokens": (1, 32, 768),
    }
    settings = lavis_settings({name: torch.empty(shape, device="meta") for name, shape in shapes.items()})
    assert settings == {
        "qformer": {
            "vocab_size": 30523,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
            "cross_attention_frequency": 2,
            "encoder_hidden_size": 1408,
            "use_qformer_text_input": True,
        },
        "vision": {
            "kind": "blip2",
            "config": {
                "hidden_size": 1408,
                "intermediate_size": 6144,
                "num_hidden_layers": 39,
                "num_attention_heads": 16,
                "patch_size": 14,
                "image_size": 224,
            },
        },
        "queries": 32,
        "max_text_tokens": 512,
    }


def wide() -> dict[str, Tensor]:
    """A complete checkpoint with heads as wide as ViT-g's and BERT's: two of 88 and two of 64."""
    sizes = {32: 176, 96: 528, 24: 128}
    state = {name: torch.zeros([sizes.get(n, n) for n in tensor.shape]) for name, tensor in STATE.items()}
    return state | {"query_tokens": torch.zeros(1, 32, 128)}
