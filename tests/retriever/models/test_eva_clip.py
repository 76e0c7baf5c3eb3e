from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from retriever.models.checkpoints import convert_checkpoint
from retriever.models.eva_clip import EVA_CLIP_8B, EvaCLIP
from retriever.models.eva_weights import hub_config, hub_sources, load_eva_clip
from retriever.models.tensor_names import INDEX_NAME
from tests.paths import GOLDEN_FILES

GOLDEN = GOLDEN_FILES / "eva_clip.safetensors"
"""Outputs of the published code; see tests/oracles/README.md."""


def golden(case: str) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Tensor]]:
    """Returns the settings, weights, and inputs with outputs of a case."""
    found = {name.removeprefix(f"{case}/"): t for name, t in load_file(GOLDEN).items() if name.startswith(f"{case}/")}
    settings = json.loads(bytes(found["config"].tolist()))
    state = {name.removeprefix("state/"): t.float() for name, t in found.items() if name.startswith("state/")}
    return settings, state, found


def write(folder: Path, settings: dict[str, Any], state: dict[str, Tensor], shards: int = 1) -> Path:
    """Writes a model folder in its published layout: one weight file, or several with an index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    if shards == 1:
        save_file(state, folder / "model.safetensors")
        return folder
    names = sorted(state)
    parts = [names[i::shards] for i in range(shards)]
    for i, part in enumerate(parts):
        save_file({name: state[name] for name in part}, folder / f"part-{i}.safetensors")
    index = {name: f"part-{i}.safetensors" for i, part in enumerate(parts) for name in part}
    (folder / INDEX_NAME).write_text(json.dumps({"weight_map": index}))
    return folder


def assert_same(model: EvaCLIP, found: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    with torch.no_grad():
        image = model.get_image_features(found["pixels"].to(model.dtype))
        text = model.get_text_features(found["ids"].long())
    torch.testing.assert_close(image.float(), found["image"], atol=tolerance, rtol=0)
    torch.testing.assert_close(text.float(), found["text"], atol=tolerance, rtol=0)


@pytest.mark.parametrize("case", ["8b", "18b", "bige", "hub"])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_published_code_gives_the_same_vectors(tmp_path: Path, case: str, shards: int) -> None:
    settings, state, found = golden(case)
    model = load_eva_clip(write(tmp_path, settings, state, shards))
    assert_same(model, found)
    assert found["image"].std() > 0.1  # the vectors are not trivial
    assert found["text"].std() > 0.1


HUB_NAMES = [
    # In this order, as the conversion script for the hub renames them.
    ("visual.cls_token", "vision_model.embeddings.class_embedding"),
    ("visual.pos_embed", "vision_model.embeddings.position_embedding.weight"),
    ("visual.patch_embed.proj", "vision_model.embeddings.patch_embedding"),
    ("visual.blocks", "vision_model.encoder.layers"),
    ("visual.norm.", "vision_model.post_layernorm."),
    ("visual.head", "visual_projection"),
    ("text.positional_embedding", "text_model.embeddings.position_embedding.weight"),
    ("text.token_embedding", "text_model.embeddings.token_embedding"),
    ("text.transformer.resblocks", "text_model.encoder.layers"),
    ("text.ln_final", "text_model.final_layer_norm"),
    ("text.text_projection", "text_projection.weight"),
    (".norm1", ".layer_norm1"),
    (".norm2", ".layer_norm2"),
    (".ln_1", ".layer_norm1"),
    (".ln_2", ".layer_norm2"),
    (".mlp.c_fc", ".mlp.fc1"),
    (".mlp.c_proj", ".mlp.fc2"),
    (".attn.proj.", ".self_attn.out_proj."),
    (".attn.out_proj.", ".self_attn.out_proj."),
]


def as_on_the_hub(settings: dict[str, Any], state: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Returns EVA's settings and weights in the layout of the model hub."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name == "logit_scale":
            continue  # EVA's own file has it, the hub's does not
        for old, new in HUB_NAMES:
            name = name.replace(old, new)
        if "qkv" in name or "in_proj" in name:
            for part, third in zip("qkv", tensor.chunk(3), strict=True):
                end = "weight" if "weight" in name else "bias"
                renamed[f"{name.partition('.attn.')[0]}.self_attn.{part}_proj.{end}"] = third.contiguous()
        elif name == "text_projection.weight":
            renamed[name] = tensor.T.contiguous()
        elif "class_embedding" in name:
            renamed[name] = tensor[0, 0]
        elif name.startswith("vision_model.embeddings.position"):
            renamed[name] = tensor[0]
        else:
            renamed[name] = tensor
    vision, text = settings["vision_cfg"], settings["text_cfg"]
    return {
        "model_type": "clip",
        "architectures": ["EvaCLIPModel"],
        "projection_dim": settings["embed_dim"],
        "vision_config": {
            "hidden_size": vision["width"],
            "num_hidden_layers": vision["layers"],
            "num_attention_heads": vision["width"] // vision["head_width"],
            "intermediate_size": int(vision["width"] * vision["mlp_ratio"]),
            "image_size": vision["image_size"],
            "patch_size": vision["patch_size"],
            "layer_norm_eps": 1e-6,
            "post_layernorm": vision["postnorm"],
        },
        "text_config": {
            "hidden_size": text["width"],
            "num_hidden_layers": text["layers"],
            "num_attention_heads": text["heads"],
            "intermediate_size": 4 * text["width"],
            "vocab_size": text["vocab_size"],
            "max_position_embeddings": text["context_length"],
            "layer_norm_eps": 1e-5,
        },
    }, renamed


@pytest.mark.parametrize("case", ["8b", "18b"])
def test_the_hub_layout_of_the_same_weights_gives_the_same_vectors(tmp_path: Path, case: str) -> None:
    settings, state, found = golden(case)
    hub_settings, hub_state = as_on_the_hub(settings, state)
    positions = torch.arange(12).unsqueeze(0)
    folder = write(tmp_path, hub_settings, hub_state | {"text_model.embeddings.position_ids": positions}, shards=2)
    assert_same(load_eva_clip(folder), found)
    # Flags with the same meaning are accepted as well.
    hub_settings["vision_config"] |= {"use_rms_norm": True, "q_bias": False, "k_bias": False, "v_bias": False}
    assert_same(load_eva_clip(write(tmp_path, hub_settings, hub_state, shards=2)), found)


PUBLISHED: dict[str, Any] = {
    "model_type": "clip",
    "architectures": ["EvaCLIPModel"],
    "projection_dim": 1280,
    "vision_config": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 20480,
        "image_size": 224,
        "patch_size": 14,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-6,
    },
    "text_config": {
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "num_attention_heads": 20,
        "intermediate_size": 5120,
        "vocab_size": 49408,
        "max_position_embeddings": 77,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
    },
}
"""The sizes in BAAI/EVA-CLIP-8B's config.json."""


def published_shapes(settings: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns names and shapes of the tensors in BAAI/EVA-CLIP-8B's weight files, given the sizes in config.json."""
    vision, text, dimension = settings["vision_config"], settings["text_config"], settings["projection_dim"]
    cells = (vision["image_size"] // vision["patch_size"]) ** 2
    shapes: dict[str, tuple[int, ...]] = {
        "vision_model.embeddings.class_embedding": (vision["hidden_size"],),
        "vision_model.embeddings.position_embedding.weight": (1 + cells, vision["hidden_size"]),
        "vision_model.embeddings.patch_embedding.weight": (
            vision["hidden_size"],
            3,
            vision["patch_size"],
            vision["patch_size"],
        ),
        "vision_model.embeddings.patch_embedding.bias": (vision["hidden_size"],),
        "vision_model.post_layernorm.weight": (vision["hidden_size"],),
        "visual_projection.weight": (dimension, vision["hidden_size"]),
        "text_model.embeddings.token_embedding.weight": (text["vocab_size"], text["hidden_size"]),
        "text_model.embeddings.position_embedding.weight": (text["max_position_embeddings"], text["hidden_size"]),
        "text_model.final_layer_norm.weight": (text["hidden_size"],),
        "text_model.final_layer_norm.bias": (text["hidden_size"],),
        "text_projection.weight": (dimension, text["hidden_size"]),
    }
    # The vision tower has RMS norms (no bias) and no bias in query, key and value; the text tower has all of them.
    for tower, sizes, without_bias in (
        ("vision", vision, ("layer_norm1", "layer_norm2", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        ("text", text, ()),
    ):
        width, wide = sizes["hidden_size"], sizes["intermediate_size"]
        layer: dict[str, tuple[int, ...]] = {"layer_norm1": (width,), "layer_norm2": (width,)}
        layer |= {f"self_attn.{name}_proj": (width, width) for name in ("q", "k", "v", "out")}
        layer |= {"mlp.fc1": (wide, width), "mlp.fc2": (width, wide)}
        for number in range(sizes["num_hidden_layers"]):
            for name, shape in layer.items():
                full = f"{tower}_model.encoder.layers.{number}.{name}"
                shapes[f"{full}.weight"] = shape
                if name not in without_bias:
                    shapes[f"{full}.bias"] = shape[:1]
    return shapes


def test_the_published_files_have_every_weight_that_is_needed() -> None:
    shapes = published_shapes(PUBLISHED)
    assert len(shapes) == 875
    assert "logit_scale" not in shapes
    config = hub_config(PUBLISHED, shapes)
    assert config == EVA_CLIP_8B
    with torch.device("meta"):
        parameters = dict(EvaCLIP(config).named_parameters())
    needed = [source for name in parameters for source in hub_sources(name, config) if source]
    assert sorted(needed) == sorted(shapes)
    # The four shards hold 9.97 + 9.93 + 9.80 + 3.18 GB of float32.
    assert round(4 * sum(math.prod(shape) for shape in shapes.values()) / 1e9, 2) == 32.88


@pytest.mark.parametrize("extra", [{}, {"logit_scale": torch.tensor(4.6)}], ids=["as published", "with a scale"])
def test_names_as_published_load(tmp_path: Path, extra: dict[str, Tensor]) -> None:
    vision = PUBLISHED["vision_config"] | {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = PUBLISHED["text_config"] | {"hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3}
    settings = PUBLISHED | {
        "projection_dim": 10,
        "vision_config": vision | {"intermediate_size": 40, "image_size": 21, "patch_size": 7},
        "text_config": text | {"intermediate_size": 48, "vocab_size": 40, "max_position_embeddings": 12},
    }
    torch.manual_seed(0)
    state = {name: torch.randn(shape) for name, shape in published_shapes(settings).items()}
    model = load_eva_clip(write(tmp_path, settings, state | extra, shards=2))
    assert (model.device, model.dtype) == (torch.device("cpu"), torch.float32)
    found = model.state_dict()
    assert torch.equal(found["vision.projection.weight"], state["visual_projection.weight"])
    values = state["text_model.encoder.layers.2.self_attn.v_proj.bias"]
    assert torch.equal(found["text.blocks.2.qkv.bias"][24:], values)


def test_half_precision_is_loaded_as_asked_and_stays_near(tmp_path: Path) -> None:
    settings, state, found = golden("8b")
    model = load_eva_clip(write(tmp_path, settings, state), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert_same(model, found, 0.1)


def test_padding_does_not_show(tmp_path: Path) -> None:
    settings, state, found = golden("8b")
    model = load_eva_clip(write(tmp_path, settings, state))
    short = found["ids"].long()[:1, :2]  # the first text is two tokens long
    with torch.no_grad():
        torch.testing.assert_close(model.get_text_features(short), found["text"][:1], atol=1e-5, rtol=0)
        # Padded with the end of text, as the hub's tokenizer does.
        padded = torch.cat([short, torch.full((1, 5), 39)], dim=1)
        torch.testing.assert_close(model.get_text_features(padded), found["text"][:1], atol=1e-5, rtol=0)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    settings, state, _ = golden("8b")
    with pytest.raises(ValueError, match=r"unexpected: visual\.rope\.freqs_cos; "):
        load_eva_clip(write(tmp_path, settings, state | {"visual.rope.freqs_cos": torch.zeros(3)}))
    wrong = state | {"visual.pos_embed": torch.zeros(1, 17, 16)}
    with pytest.raises(ValueError, match=r"visual\.pos_embed: expected \[10, 16\], got \[17, 16\]"):
        load_eva_clip(write(tmp_path, settings, wrong))
    other = settings | {"vision_cfg": settings["vision_cfg"] | {"rope": True}}
    with pytest.raises(ValueError, match=r"config\.json: vision_cfg\.rope: .*open_clip"):
        load_eva_clip(write(tmp_path, other, state))
    del settings["text_cfg"]["width"]
    with pytest.raises(ValueError, match=r"config\.json: 'width'"):
        load_eva_clip(write(tmp_path, settings, state))


def test_a_shard_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings, state, _ = golden("8b")
    folder = write(tmp_path, settings, state, shards=3)
    (folder / "part-1.safetensors").unlink()
    with pytest.raises(ValueError, match=r"part-1\.safetensors: not found, but model\.safetensors\.index\.json"):
        load_eva_clip(folder)
    (folder / INDEX_NAME).unlink()
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(ValueError, match=r"has no \.safetensors file; `omgm import encoder`"):
        load_eva_clip(folder)


def test_weights_that_were_saved_over_shards_are_the_model(tmp_path: Path) -> None:
    settings, state, found = golden("8b")
    folder = write(tmp_path, settings, {name: torch.zeros_like(one) for name, one in state.items()}, shards=3)
    assert_same(load_eva_clip(write(folder, settings, state)), found)
    for shard in folder.glob("part-*.safetensors"):  # as transformers leaves them
        shard.unlink()
    assert_same(load_eva_clip(folder), found)


@pytest.mark.parametrize("wrapped", [lambda state: {"state_dict": {f"module.{k}": v for k, v in state.items()}}, dict])
def test_a_checkpoint_becomes_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: Any) -> None:
    settings, state, found = golden("8b")
    monkeypatch.setattr("retriever.models.checkpoints.SHARD_BYTES", 20_000)
    torch.save(wrapped(state), tmp_path / "EVA_CLIP_tiny.pt")
    convert_checkpoint(tmp_path / "EVA_CLIP_tiny.pt", tmp_path / "model")
    assert len(list((tmp_path / "model").glob("model-*-of-*.safetensors"))) > 2
    (tmp_path / "model" / "config.json").write_text(json.dumps(settings))
    assert_same(load_eva_clip(tmp_path / "model"), found)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "model": "none"}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other\.pt: expected a state dict"):
        convert_checkpoint(tmp_path / "other.pt", tmp_path / "model")


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.pt").write_text("<html>not found</html>")
    with pytest.raises(ValueError, match=r"page\.pt: not readable as a checkpoint with only tensors"):
        convert_checkpoint(tmp_path / "page.pt", tmp_path / "model")


def test_the_published_sizes_weigh_what_the_published_files_weigh() -> None:
    with torch.device("meta"):
        model = EvaCLIP(EVA_CLIP_8B)
    image, text = (sum(p.numel() for p in tower.parameters()) for tower in (model.vision, model.text))
    # float32, in 10^9 bytes: EVA_8B_psz14.bin, EVA_CLIP_8B_psz14_s9B.pt
    assert round(4 * image / 1e9, 1) == 30.1
    assert round(4 * (image + text) / 1e9, 1) == 32.9
