"""The BLIP-2 of transformers: its ViT-g image tower, and its image-text retrieval checkpoints under our names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import nn

MODEL_TYPE = "blip-2"
"""`model_type` in the `config.json` of a checkpoint (`Salesforce/blip2-itm-vit-g`)."""

_HEADS = ("vision_projection.", "text_projection.", "itm_head.", "vision_proj.", "text_proj.")
"""Contrastive and matching heads, by their current and former names: other ways to score, not used here."""

_FIRST_REVISIONS = ("qformer.embeddings.", "cls.", "temp")
"""Names that only the first revisions on the hub have; the Q-Former's other weights were renamed as well."""


def vision_tower(config: dict[str, Any]) -> nn.Module:
    """Returns an untrained image tower without its last norm.

    That norm is BLIP-2's `ln_vision`, which is trained with the Q-Former while the tower stays frozen; in the encoder
    it is `vision_norm`.
    """
    from transformers import Blip2VisionConfig, Blip2VisionModel  # only here, because our own tower does without

    tower = Blip2VisionModel(Blip2VisionConfig(**config))
    tower.register_module("post_layernorm", nn.Identity())
    return tower


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Translates a checkpoint's `config.json` into our settings.

    Raises:
        ValueError: Its Q-Former does not read text.
    """
    qformer = config.get("qformer_config") or {}
    if not qformer.get("use_qformer_text_input"):
        raise ValueError(
            "qformer_config.use_qformer_text_input: this BLIP-2 reads no text beside the image; "
            "use one for image-text retrieval, such as Salesforce/blip2-itm-vit-g"
        )
    from transformers import Blip2VisionConfig

    vision = Blip2VisionConfig(**(config.get("vision_config") or {}))
    return {
        "qformer": qformer,
        "vision": {"kind": "blip2", "config": vision.to_diff_dict()},
        "queries": config.get("num_query_tokens", 32),
        "max_text_tokens": qformer.get("max_position_embeddings", 512),
        "vision_norm_eps": vision.layer_norm_eps,
    }


def check_revision(folder: Path, names: Collection[str]) -> None:
    """Checks that a checkpoint's tensor names are not those of the first revisions on the hub.

    Raises:
        ValueError: The checkpoint is one of those revisions.
    """
    if old := sorted(name for name in names if name.startswith(_FIRST_REVISIONS)):
        raise ValueError(
            f"{folder}: the weights contain {old[0]}, a name from the first revisions of BLIP-2 on the hub, which are "
            "not supported; use the revision that configs/paper.toml names"
        )


def stored_name(name: str) -> str:
    """Returns the name of our tensor `name` in a checkpoint."""
    part, dot, rest = name.partition(".")
    prefix = {"vision": "vision_model", "vision_norm": "vision_model.post_layernorm"}.get(part, part)
    return prefix + dot + rest


def ignored(name: str) -> bool:
    """Tells whether a tensor of a checkpoint is known and not needed."""
    return name.startswith(_HEADS)
