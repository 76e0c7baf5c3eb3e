"""The folder of a Q-Former encoder: our own layout, or that of a transformers BLIP-2 checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from retriever.files import read_object, replace_with
from retriever.models import blip2
from retriever.models.pixels import PixelPreparation
from retriever.models.qformer_layers import QFormerConfig
from retriever.models.small_clip import SmallCLIPConfig, SmallVision
from retriever.models.text_tokenizer import AnyTokenizer
from retriever.models.weights import WEIGHTS_NAME, stored_tensors

CONFIG_NAME = "config.json"

_TOWERS: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "small_clip": lambda config: SmallVision(SmallCLIPConfig.read(config)),
    "blip2": blip2.vision_tower,
}
"""Builds the image tower of each kind from its sizes."""

_SMALL_SETTINGS = ("image_size", "channels", "vision_heads")


@dataclass(frozen=True, slots=True)
class Layout:
    """Settings of a folder and the names of its tensors.

    Attributes:
        settings: `qformer`: the arguments of a `QFormerConfig`. `vision`: the arguments of `vision_tower`.
            `queries`: number of query tokens, and so of fused tokens. `max_text_tokens`: longest text; the rest is cut.
            `vision_norm_eps`: epsilon of the norm between tower and Q-Former, 1e-5 by default. `centered`: whether each
            of the fused tokens has its mean over training data subtracted, `token_mean`; what all images and texts
            share in a token would otherwise dominate every cosine.
        stored_name: Maps the name of our tensor to its name in the folder.
        ignored: Tells whether a tensor of the folder is known and not needed.
    """

    settings: dict[str, Any]
    stored_name: Callable[[str], str] = lambda name: name
    ignored: Callable[[str], bool] = lambda name: False


def vision_tower(settings: Mapping[str, Any]) -> nn.Module:
    """Returns an image tower with random weights, which returns `last_hidden_state` [B, cells, width].

    Args:
        settings: Its `kind`, small_clip or blip2, and its sizes, `config`.
    """
    return _TOWERS[settings["kind"]](settings["config"])


def read_layout(folder: Path) -> Layout:
    """Reads `config.json` in `folder`.

    Raises:
        ValueError: The file is missing, or the model is of an unknown kind or from an unsupported old revision.
    """
    path = folder / CONFIG_NAME
    if not path.is_file():
        raise ValueError(f"{path}: not found; the folder of a Q-Former must have one")
    settings = read_object(path)
    try:
        if settings.get("model_type") == blip2.MODEL_TYPE:
            layout = Layout(blip2.settings_of(settings), blip2.stored_name, blip2.ignored)
        elif (kind := settings.get("vision", {}).get("kind")) in _TOWERS:
            layout = Layout(settings)
        else:
            raise ValueError(f"vision.kind: must be one of {', '.join(_TOWERS)}, got {kind!r}")
        QFormerConfig.read(layout.settings["qformer"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if settings.get("model_type") == blip2.MODEL_TYPE:
        blip2.check_revision(folder, stored_tensors(folder))
    return layout


def write_folder(
    folder: Path,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    tokenizer: AnyTokenizer,
    pixels: PixelPreparation,
) -> None:
    """Writes a folder in our layout; the weights come last."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    pixels.save(folder)
    (folder / CONFIG_NAME).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    replace_with(folder / WEIGHTS_NAME, lambda partial: save_file(contiguous, partial))


def small_settings(config: SmallCLIPConfig) -> dict[str, Any]:
    """Returns the settings of a `SmallVision` tower."""
    return {"kind": "small_clip", "config": {key: getattr(config, key) for key in _SMALL_SETTINGS}}
