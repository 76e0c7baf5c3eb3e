"""BERT encoders, with LoRA matrices merged into their weights; `retriever.models.base_bert` loads published ones.

Their layers are here, not transformers': importing those takes three times as long as importing PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional

DOWN, UP = ".lora_down", ".lora_up"


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The sizes of a BERT, as its config.json names them; the defaults are the published ones."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Takes the sizes from a config.json."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})


class Bert(nn.Module):
    """A BERT without pooler and dropout; its tensors have the published names, in the order of transformers.

    Args:
        config: Its sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(config.vocab_size, width, padding_idx=0),
                "position_embeddings": nn.Embedding(config.max_position_embeddings, width),
                "token_type_embeddings": nn.Embedding(config.type_vocab_size, width),
                "LayerNorm": nn.LayerNorm(width, config.layer_norm_eps),
            }
        )
        layers = nn.ModuleList(_layer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return next(self.parameters()).device

    def forward(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Returns the last layer's output, float [B, T, D].

        Args:
            ids: Token ids, int64 [B, T].
            mask: True for tokens, false for padding, bool [B, T]; `None` if nothing is padded.
            types: The type of each token, int64 [B, T]; `None` if all are of type 0.
        """
        embeddings: Any = self.embeddings
        layers: Any = self.encoder["layer"]
        heads = self.config.num_attention_heads
        kinds = embeddings["token_type_embeddings"]
        embedded = embeddings["word_embeddings"](ids) + (kinds.weight[0] if types is None else kinds(types))
        hidden: Tensor = embeddings["LayerNorm"](embedded + embeddings["position_embeddings"].weight[: ids.shape[1]])
        shown = None if mask is None else mask[:, None, None, :]
        for layer in layers:
            seen = attended(layer["attention"]["self"], hidden, hidden, heads, shown)
            hidden = added(layer["attention"]["output"], seen, hidden)
            between = functional.gelu(layer["intermediate"]["dense"](hidden))
            hidden = added(layer["output"], between, hidden)
        return hidden


def _layer(config: BertConfig) -> nn.ModuleDict:
    width, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
    return nn.ModuleDict(
        {
            "attention": nn.ModuleDict({"self": projections(width, width), "output": output(width, width, eps)}),
            "intermediate": nn.ModuleDict({"dense": nn.Linear(width, inner)}),
            "output": output(inner, width, eps),
        }
    )


def projections(width: int, context_width: int) -> nn.ModuleDict:
    """Returns the linear layers of an attention over vectors of `context_width`."""
    sizes = {"query": width, "key": context_width, "value": context_width}
    return nn.ModuleDict({name: nn.Linear(size, width) for name, size in sizes.items()})


def output(size: int, width: int, eps: float) -> nn.ModuleDict:
    """Returns the linear layer and the norm that end an attention or a feed-forward layer; see `added`."""
    return nn.ModuleDict({"dense": nn.Linear(size, width), "LayerNorm": nn.LayerNorm(width, eps)})


def attended(
    layer: Any, hidden: Tensor, context: Tensor, heads: int, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """Lets `hidden` [B, N, D] attend to `context` [B, M, W] by its `projections`.

    `mask` is true for what is attended to, bool and broadcast to [B, heads, N, M]; `dropout` drops attention weights.
    """
    projected = layer["query"](hidden), layer["key"](context), layer["value"](context)
    query, key, value = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in projected)
    found = functional.scaled_dot_product_attention(query, key, value, mask, dropout)
    return found.transpose(1, 2).flatten(2)


def added(layer: Any, found: Tensor, hidden: Tensor, dropout: float = 0.0) -> Tensor:
    """Adds what an attention or a feed-forward layer found to its input, by its `output`."""
    through: Tensor = layer["dense"](found)
    if dropout:
        through = functional.dropout(through, dropout)
    normed: Tensor = layer["LayerNorm"](through + hidden)
    return normed


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
