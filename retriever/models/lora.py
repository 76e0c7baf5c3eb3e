"""Merges low-rank matrices (LoRA), which `training.sections` trains, into the weights of linear layers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

DOWN, UP = ".lora_down", ".lora_up"


@torch.no_grad()
def merge_lora(model: nn.Module, file: Path) -> None:
    """Adds the low-rank matrices of a safetensors file to a model's linear layers.

    The file has two tensors per layer: `LAYER.lora_down` [r, in] and `LAYER.lora_up` [out, r], the scale included.
    Other tensors in it (heads) are left alone.

    Raises:
        ValueError: A layer is unknown, one of its matrices is missing, or their shapes do not fit.
    """
    with safe_open(file, "pt") as stored:
        names: set[str] = set(stored.keys())
        for layer in sorted({name.rpartition(".")[0] for name in names if name.endswith((DOWN, UP))}):
            if missing := {layer + DOWN, layer + UP} - names:
                raise ValueError(f"{file}: {', '.join(missing)}: missing; train the weights again")
            weight = _weight(model, layer, file)
            down, up = stored.get_tensor(layer + DOWN), stored.get_tensor(layer + UP)
            if up.shape[1:] != down.shape[:1] or up.shape[:1] + down.shape[1:] != weight.shape:
                shapes = f"up {list(up.shape)} and down {list(down.shape)} do not fit its weight {list(weight.shape)}"
                raise ValueError(f"{file}: {layer}: {shapes}")
            weight += (up.float() @ down.float()).to(weight)


def _weight(model: nn.Module, layer: str, file: Path) -> Tensor:
    """Returns the weight [out, in] of a linear layer."""
    try:
        linear = model.get_submodule(layer)
    except AttributeError as error:
        raise ValueError(f"{file}: {layer}: the model has no such layer; it belongs to another base model") from error
    if not isinstance(linear, nn.Linear):
        raise ValueError(f"{file}: {layer}: must be a linear layer, is {type(linear).__name__}")
    return linear.weight


def linear_layers(model: nn.Module, names: Iterable[str] = ("query", "key", "value", "dense")) -> list[str]:
    """Returns the names of a model's linear layers whose last part is among `names`, in order."""
    linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    return [name for name in linear if name.endswith(tuple(f".{end}" for end in names))]
