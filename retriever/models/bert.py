"""BERT encoders of the table of base models, with LoRA matrices merged into their weights."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from retriever.base_models import base_model
from retriever.files import read_object
from retriever.models.weights import check_shapes, read_weights

DOWN, UP = ".lora_down", ".lora_up"


def load_bert(name: str, device: str = "cpu", dtype: torch.dtype = torch.float32) -> tuple[BertModel, Tokenizer]:
    """Loads a base model without its pooler, and its tokenizer without truncation and padding.

    Raises:
        ValueError: The model is unknown, not available, or a file of it differs from the table.
    """
    folder = base_model(name)
    config = BertConfig(**read_object(folder / "config.json"))
    with torch.device("meta"):
        model = BertModel(config, add_pooling_layer=False)
    expected = model.state_dict()
    tensors = read_weights(folder, {key: key for key in expected}, device, dtype, ignored=_left_out)
    check_shapes(folder, tensors, expected)
    model.load_state_dict(tensors, assign=True)
    for buffer in ("position_ids", "token_type_ids"):  # not among the weights
        length = config.max_position_embeddings
        values = torch.arange(length) if buffer == "position_ids" else torch.zeros(length, dtype=torch.long)
        setattr(model.embeddings, buffer, values.expand(1, -1).to(device))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return model.eval(), tokenizer


def hidden_states(model: BertModel, ids: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the last layer's output, float [B, T, D], as the model itself does in eval mode.

    For one short text, the model's own forward pass takes about as long around the matrix products as a layer does.

    Args:
        model: The model; all tokens are of type 0.
        ids: Token ids, int64 [B, T].
        mask: True for tokens, false for padding, bool [B, T]; `None` if nothing is padded.
    """
    embeddings: Any = model.embeddings
    layers: Any = model.encoder.layer
    heads = model.config.num_attention_heads
    places = embeddings.position_embeddings.weight[: ids.shape[1]] + embeddings.token_type_embeddings.weight[0]
    hidden: Tensor = embeddings.LayerNorm(embeddings.word_embeddings(ids) + places)
    attended = None if mask is None else mask[:, None, None, :]
    for layer in layers:
        own, output = layer.attention.self, layer.attention.output
        query, key, value = (
            project(hidden).unflatten(-1, (heads, -1)).transpose(1, 2) for project in (own.query, own.key, own.value)
        )
        found = functional.scaled_dot_product_attention(query, key, value, attended).transpose(1, 2).flatten(2)
        hidden = output.LayerNorm(output.dense(found) + hidden)
        between = functional.gelu(layer.intermediate.dense(hidden))
        hidden = layer.output.LayerNorm(layer.output.dense(between) + hidden)
    return hidden


def _left_out(name: str) -> bool:
    return name.startswith("pooler.") or name.endswith(".position_ids")


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
