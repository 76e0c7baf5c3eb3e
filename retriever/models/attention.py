"""What the layers of BERT and of the Q-Former are made of: an attention, and an addition with a norm."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional


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
