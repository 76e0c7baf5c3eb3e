"""The names of BLIP-2's weights in LAVIS, and therefore in OMGM and EchoSight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from retriever.models.tensor_names import some

VISION_HEAD, TEXT_HEAD = 88, 64
"""Width of an attention head in ViT-g and in BERT, which a checkpoint does not record."""

IGNORED = ("Qformer.cls.", "vision_proj.", "text_proj.", "itm_head.", "temp", "prompt_tokens")
"""Heads, temperature and prompts for other ways to score or for generating text; not needed here."""

FROM_BASE = "pass --base with LAVIS's eva_vit_g.pth for an image tower, or with a complete model"
"""Advice if a checkpoint lacks weights."""

_COUNTING = "Qformer.bert.embeddings.position_ids"
_PARTS = {
    "vision_norm.": "ln_vision.",
    "embeddings.": "Qformer.bert.embeddings.",
    "qformer.layernorm.": "Qformer.bert.embeddings.LayerNorm.",
    "qformer.encoder.": "Qformer.bert.encoder.",
    "vision.embeddings.class_embedding": "visual_encoder.cls_token",
    "vision.embeddings.position_embedding": "visual_encoder.pos_embed",
    "vision.embeddings.patch_embedding.": "visual_encoder.patch_embed.proj.",
    "vision.encoder.layers.": "visual_encoder.blocks.",
}
_INSIDE = {
    ".attention.attention.": ".attention.self.",
    ".crossattention.attention.": ".crossattention.self.",
    ".layer_norm1.": ".norm1.",
    ".layer_norm2.": ".norm2.",
    ".self_attn.qkv.": ".attn.qkv.",
    ".self_attn.projection.": ".attn.proj.",
}
_QKV_BIAS = ".attn.qkv.bias"


def _lavis_name(name: str) -> str:
    """Returns LAVIS's name of our tensor `name`."""
    for ours, theirs in _PARTS.items():
        if name.startswith(ours):
            name = theirs + name.removeprefix(ours)
            break
    for ours, theirs in _INSIDE.items():
        name = name.replace(ours, theirs)
    return name


def lavis_sources(name: str) -> tuple[str, ...]:
    """Returns the names of the LAVIS tensors that make up our tensor `name`: one, or the query and value biases."""
    theirs = _lavis_name(name)
    if theirs.endswith(_QKV_BIAS):
        stem = theirs.removesuffix("qkv.bias")
        return f"{stem}q_bias", f"{stem}v_bias"
    return (theirs,)


def from_lavis(sources: tuple[str, ...], state: Mapping[str, Tensor]) -> Tensor:
    """Builds our tensor from LAVIS's; its image tower has no key bias, so ours is zero."""
    if len(sources) == 1:
        return state[sources[0]]
    queries, values = (state[source] for source in sources)
    return torch.cat([queries, torch.zeros_like(queries), values])


def is_ignored(name: str) -> bool:
    """Tells whether a tensor of a LAVIS checkpoint is known and not needed."""
    return name.startswith(IGNORED) or name == _COUNTING


def lavis_settings(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Returns our settings for a complete checkpoint: sizes from its tensors, head widths of ViT-g and BERT.

    Raises:
        ValueError: A tensor that determines a size is missing, or a width is not a multiple of the head width.
    """
    vision, text = "visual_encoder.", "Qformer.bert."
    needed = (
        f"{vision}patch_embed.proj.weight",
        f"{vision}pos_embed",
        f"{vision}blocks.0.mlp.fc1.weight",
        f"{text}embeddings.word_embeddings.weight",
        f"{text}embeddings.position_embeddings.weight",
        f"{text}encoder.layer.0.intermediate.dense.weight",
        "query_tokens",
    )
    if absent := [name for name in needed if name not in state]:
        raise ValueError(f"missing: {some(absent)}; {FROM_BASE}")
    patches, positions, vision_mlp, words, places, text_mlp, queries = (state[name].shape for name in needed)
    width, hidden, grid = patches[0], words[1], math.isqrt(positions[1] - 1)
    if width % VISION_HEAD or hidden % TEXT_HEAD:
        raise ValueError(
            f"widths {width} and {hidden} are not those of ViT-g and BERT, so the number of attention heads is "
            "unknown; pass --base with the folder of a model of these sizes"
        )
    layers = _count(state, f"{text}encoder.layer.")
    crossed = [i for i in range(layers) if f"{text}encoder.layer.{i}.crossattention.self.query.weight" in state]
    return {
        "qformer": {
            "vocab_size": words[0],
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // TEXT_HEAD,
            "intermediate_size": text_mlp[0],
            "max_position_embeddings": places[0],
            "cross_attention_frequency": crossed[1] - crossed[0] if len(crossed) > 1 else max(1, layers),
            "encoder_hidden_size": width,
            "use_qformer_text_input": True,
        },
        "vision": {
            "kind": "blip2",
            "config": {
                "hidden_size": width,
                "intermediate_size": vision_mlp[0],
                "num_hidden_layers": _count(state, f"{vision}blocks."),
                "num_attention_heads": width // VISION_HEAD,
                "patch_size": patches[-1],
                "image_size": grid * patches[-1],
            },
        },
        "queries": queries[1],
        "max_text_tokens": places[0],
    }


def _count(state: Mapping[str, Tensor], prefix: str) -> int:
    """Counts the numbered layers below `prefix`."""
    return len({name.removeprefix(prefix).partition(".")[0] for name in state if name.startswith(prefix)})
