"""Loads published EVA-CLIP weights into `retriever.models.eva_clip` by name, and converts EVA's own checkpoints.

No code from their folder is run.

Two layouts are supported: the hub's (`BAAI/EVA-CLIP-8B`), and that of EVA's own repository, whose `config.json` is a
model configuration (`vision_cfg`, `text_cfg`) and whose checkpoint `retriever.models.checkpoints` converts.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from retriever.files import read_object
from retriever.models.checkpoints import convert_checkpoint
from retriever.models.eva_clip import EvaCLIP, EvaCLIPConfig, TowerConfig
from retriever.models.pixels import PixelPreparation
from retriever.models.tensor_names import check_weights
from retriever.models.weights import read_tensors, stored_tensors, without_memory

Sources = list[str | None]
"""The published tensors that make up a parameter of ours, stacked along its first dimension; `None` means zeros."""

UNKNOWN = {
    "hub": ("use_rope", "use_swiglu_mlp", "use_sub_ln"),
    "eva": ("rope", "naiveswiglu", "subln", "global_average_pool", "ls_init_value", "hf_model_name"),
}
"""Settings of other EVA-CLIP models, which open_clip can load."""

_HUB = {
    "vision.class_token": "vision_model.embeddings.class_embedding",
    "vision.positions": "vision_model.embeddings.position_embedding.weight",
    "vision.patches": "vision_model.embeddings.patch_embedding",
    "vision.blocks": "vision_model.encoder.layers",
    "vision.norm": "vision_model.post_layernorm",
    "vision.projection": "visual_projection",
    "text.tokens": "text_model.embeddings.token_embedding",
    "text.positions": "text_model.embeddings.position_embedding.weight",
    "text.blocks": "text_model.encoder.layers",
    "text.norm": "text_model.final_layer_norm",
    "text.projection": "text_projection",
}
_HUB_BLOCK = {
    "norm1": "layer_norm1",
    "out": "self_attn.out_proj",
    "norm2": "layer_norm2",
    "fc1": "mlp.fc1",
    "fc2": "mlp.fc2",
}
_EVA = {
    "vision.class_token": "visual.cls_token",
    "vision.positions": "visual.pos_embed",
    "vision.patches": "visual.patch_embed.proj",
    "vision.blocks": "visual.blocks",
    "vision.norm": "visual.norm",
    "vision.projection": "visual.head",
    "text.tokens": "text.token_embedding",
    "text.positions": "text.positional_embedding",
    "text.blocks": "text.transformer.resblocks",
    "text.norm": "text.ln_final",
}
_EVA_BLOCK = {
    "vision": {"norm1": "norm1", "out": "attn.proj", "norm2": "norm2", "fc1": "mlp.fc1", "fc2": "mlp.fc2"},
    "text": {"norm1": "ln_1", "out": "attn.out_proj", "norm2": "ln_2", "fc1": "mlp.c_fc", "fc2": "mlp.c_proj"},
}
_TRANSPOSED = "text.text_projection"


def load_eva_clip(folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> EvaCLIP:
    """Loads the model in `folder` tensor by tensor, so that memory never holds two copies.

    Raises:
        ValueError: A file, a setting or a weight is missing, unexpected or has the wrong shape; the message names it.
    """
    settings = read_object(folder / "config.json")
    stored = stored_tensors(folder)
    of_eva = "vision_cfg" in settings
    try:
        config = eva_config(settings) if of_eva else hub_config(settings, stored)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{folder / 'config.json'}: {error}") from error
    with without_memory():
        model = EvaCLIP(config)
    names = model.state_dict()
    sources = {name: eva_sources(name) if of_eva else hub_sources(name, config) for name in names}
    # Class token and positions have leading dimensions of 1 in one layout only.
    shapes = {source: _sizes(place.shape) for source, place in _places(names, sources).items()}
    check_weights(folder, shapes, {source: _sizes(tensor.shape) for source, tensor in stored.items()})
    model = model.to(dtype).to_empty(device=device)
    parameters = model.state_dict()
    for name, parts in sources.items():
        if None in parts:
            parameters[name].zero_()
    places = _places(parameters, sources)
    for source, tensor in read_tensors(stored, places):
        places[source].copy_(tensor.reshape(places[source].shape))
    return model.eval().requires_grad_(False)


def hub_config(settings: dict[str, Any], stored: Collection[str]) -> EvaCLIPConfig:
    """Reads the sizes from the hub's `config.json`, and settings missing there from the names of the weights.

    Raises:
        ValueError: The model is of another kind.
        KeyError: A size is missing.
    """

    def tower(kind: str, eps: float) -> TowerConfig:
        values = settings[f"{kind}_config"]
        _refuse(values, UNKNOWN["hub"], f"{kind}_config")
        if values.get("hidden_act", "gelu") != "gelu":
            raise ValueError(f"{kind}_config.hidden_act: expected gelu, got {values['hidden_act']!r}")
        prefix = f"{kind}_model.encoder.layers."
        names = [name.removeprefix(prefix).partition(".")[2] for name in stored if name.startswith(prefix)]
        return TowerConfig(
            values["hidden_size"],
            values["num_hidden_layers"],
            values["num_attention_heads"],
            values["intermediate_size"],
            values.get("layer_norm_eps", eps),
            rms_norm=values.get("use_rms_norm", "layer_norm1.bias" not in names),
            post_norm=bool(values.get("post_layernorm", False)),
            biases=tuple(values.get(f"{x}_bias", f"self_attn.{x}_proj.bias" in names) for x in "qkv"),
        )

    vision, text = settings["vision_config"], settings["text_config"]
    return EvaCLIPConfig(
        tower("vision", 1e-6),
        tower("text", 1e-5),
        vision["image_size"],
        vision["patch_size"],
        text["vocab_size"],
        text["max_position_embeddings"],
        settings["projection_dim"],
        image_bias="visual_projection.bias" in stored,
    )


def eva_config(settings: dict[str, Any]) -> EvaCLIPConfig:
    """Reads the sizes from a model configuration of EVA's repository.

    Raises:
        ValueError: The model is of another kind.
        KeyError: A size is missing.
    """
    vision, text = settings["vision_cfg"], settings["text_cfg"]
    _refuse(vision, UNKNOWN["eva"], "vision_cfg")
    _refuse(text, UNKNOWN["eva"], "text_cfg")
    bias = vision.get("qkv_bias", True)
    return EvaCLIPConfig(
        TowerConfig(
            vision["width"],
            vision["layers"],
            vision["width"] // vision.get("head_width", 64),
            int(vision["width"] * vision.get("mlp_ratio", 4.0)),
            1e-6,
            rms_norm=vision.get("use_rms_norm", False),
            post_norm=vision.get("postnorm", False),
            biases=(bias, False, bias),
        ),
        TowerConfig(text["width"], text["layers"], text["heads"], 4 * text["width"], 1e-5),
        vision["image_size"],
        vision["patch_size"],
        text["vocab_size"],
        text["context_length"],
        settings["embed_dim"],
        image_bias=bias,
    )


def hub_sources(name: str, config: EvaCLIPConfig) -> Sources:
    """Returns the hub's names of the tensors that make up our parameter `name`."""
    tower, block, suffix = _split(name)
    if block is None:
        return [_rename(name, _HUB)]
    prefix = f"{_HUB[f'{tower}.blocks']}.{block}"
    if suffix.startswith("qkv."):
        present = getattr(config, tower).biases if suffix == "qkv.bias" else (True, True, True)
        kind = suffix.removeprefix("qkv.")
        return [
            f"{prefix}.self_attn.{x}_proj.{kind}" if there else None for x, there in zip("qkv", present, strict=True)
        ]
    return [f"{prefix}.{_rename(suffix, _HUB_BLOCK)}"]


def eva_sources(name: str) -> Sources:
    """Returns the names in EVA's repository of the tensors that make up our parameter `name`."""
    tower, block, suffix = _split(name)
    if name == "text.projection.weight":
        return [_TRANSPOSED]
    if block is None:
        return [_rename(name, _EVA)]
    prefix = f"{_EVA[f'{tower}.blocks']}.{block}"
    if suffix == "qkv.weight":
        return [f"{prefix}.attn.qkv.weight" if tower == "vision" else f"{prefix}.attn.in_proj_weight"]
    if suffix == "qkv.bias":
        separate: Sources = [f"{prefix}.attn.q_bias", None, f"{prefix}.attn.v_bias"]
        return separate if tower == "vision" else [f"{prefix}.attn.in_proj_bias"]
    return [f"{prefix}.{_rename(suffix, _EVA_BLOCK[tower])}"]


def _places(parameters: Mapping[str, Tensor], sources: Mapping[str, Sources]) -> dict[str, Tensor]:
    """Returns the part of our parameters that each published tensor is copied to."""
    return {
        source: part.T if source == _TRANSPOSED else part
        for name, parts in sources.items()
        for source, part in zip(parts, parameters[name].chunk(len(parts)), strict=True)
        if source is not None
    }


def _sizes(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _refuse(values: dict[str, Any], settings: Iterable[str], where: str) -> None:
    for setting in settings:
        if values.get(setting):
            raise ValueError(f"{where}.{setting}: this kind of EVA-CLIP is not supported; use it through open_clip")


def _split(name: str) -> tuple[str, str | None, str]:
    """Splits "vision.blocks.3.fc1.bias" into "vision", "3" and "fc1.bias"; outside blocks the number is `None`."""
    parts = name.split(".")
    if len(parts) > 2 and parts[1] == "blocks":
        return parts[0], parts[2], ".".join(parts[3:])
    return parts[0], None, name


def _rename(name: str, table: dict[str, str]) -> str:
    """Renames by `table`: the whole name, or its part before `.weight` or `.bias`."""
    stem, _, kind = name.rpartition(".")
    if name in table or stem not in table:
        return table.get(name, name)
    return f"{table[stem]}.{kind}"


def import_eva(checkpoint: Path, config: Path, out: Path, tokenizer: Path | None = None) -> int:
    """Writes a checkpoint as a model folder, in the checkpoint's precision, and returns its number of parameters.

    Args:
        checkpoint: The file to read; only tensors are unpickled.
        config: The model's configuration in EVA's repository (`EVA-CLIP-8B.json`): `vision_cfg`, `text_cfg`.
        out: The folder to write; it appears once it is complete and checked.
        tokenizer: Folder of CLIP's tokenizer; without it, you must copy its files into `out` yourself.

    Raises:
        ValueError: `out` exists, the configuration is of another kind, or the weights do not match it.
    """
    if out.exists():
        raise ValueError(f"--out: {out} exists; name a new folder, or delete it")
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        model = eva_config(settings)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{config}: not a configuration of EVA's repository: {error!r}") from error
    from transformers import CLIPTokenizer  # only here, because other commands do without

    words = None if tokenizer is None else CLIPTokenizer.from_pretrained(tokenizer)
    if words is not None and len(words) != model.vocab_size:
        raise ValueError(f"{tokenizer}: has {len(words)} words, the model {model.vocab_size}; is it CLIP's tokenizer?")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        convert_checkpoint(checkpoint, partial)
        if words is not None:
            words.save_pretrained(partial)
        PixelPreparation(model.image_size, crop=True).save(partial)
        (partial / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        # Loading on the meta device checks names and shapes without using memory.
        parameters = sum(p.numel() for p in load_eva_clip(partial, "meta", torch.float32).parameters())
        partial.replace(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return parameters
