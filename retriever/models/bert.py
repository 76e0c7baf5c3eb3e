"""BERT encoders; `retriever.models.base_bert` loads published ones.

Their layers are here, not transformers': importing those takes three times as long as importing PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.attention import added, attended, output, projections


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
