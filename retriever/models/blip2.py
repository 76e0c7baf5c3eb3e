"""BLIP-2 as transformers has it: its ViT-g image tower, and its image-text checkpoints under our names."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import Blip2VisionConfig, Blip2VisionModel

MODEL_TYPE = "blip-2"
"""What `config.json` of a checkpoint calls itself (`Salesforce/blip2-itm-vit-g`)."""

_HEADS = ("vision_projection.", "text_projection.", "itm_head.")
"""Contrastive and matching heads, which score differently and are not used here."""

_COUNTING = "embeddings.position_ids"
"""A buffer that counts from zero, which older checkpoints keep."""


def vision_tower(config: dict[str, Any]) -> nn.Module:
    """Returns the image tower without its last norm.

    That norm is BLIP-2's `ln_vision`, which is trained with the Q-Former while the tower stays as it is; the fusion
    encoder has it as `vision_norm`.
    """
    tower = Blip2VisionModel(Blip2VisionConfig(**config))
    tower.register_module("post_layernorm", nn.Identity())
    return tower


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Returns our settings for a checkpoint's `config.json`.

    Raises:
        ValueError: Its Q-Former does not read text.
    """
    qformer = config.get("qformer_config") or {}
    if not qformer.get("use_qformer_text_input"):
        raise ValueError(
            "qformer_config.use_qformer_text_input: this BLIP-2 reads no text beside the picture; "
            "one made for image-text retrieval is needed, such as Salesforce/blip2-itm-vit-g"
        )
    vision = Blip2VisionConfig(**(config.get("vision_config") or {}))
    return {
        "qformer": qformer,
        "vision": {"kind": "blip2", "config": vision.to_diff_dict()},
        "queries": config.get("num_query_tokens", 32),
        "max_text_tokens": qformer.get("max_position_embeddings", 512),
        "vision_norm_eps": vision.layer_norm_eps,
    }


def stored_name(name: str) -> str:
    """Returns what a checkpoint calls our tensor `name`."""
    part, dot, rest = name.partition(".")
    prefix = {"vision": "vision_model", "vision_norm": "vision_model.post_layernorm"}.get(part, part)
    return prefix + dot + rest


def ignored(name: str) -> bool:
    """Tells whether a checkpoint's tensor is known and not needed."""
    return name.startswith(_HEADS) or name == _COUNTING
