"""The layers of BLIP-2's Q-Former, which reads queries, texts and, through cross-attention, images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.attention import added, attended, output, projections

_ONLY = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
"""Settings of transformers that have one value here, the one of all published models."""


@dataclass(frozen=True, slots=True)
class QFormerConfig:
    """The sizes of a Q-Former, as transformers' `Blip2QFormerConfig` names them, by default the published ones."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    cross_attention_frequency: int = 2
    encoder_hidden_size: int = 1408

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Takes the sizes from a config.json.

        Raises:
            ValueError: The model is of another kind, or its width is not a multiple of its number of heads.
        """
        for name, value in _ONLY.items():
            if settings.get(name, value) != value:
                raise ValueError(f"qformer: {name}: must be {value!r}, got {settings[name]!r}; use another model")
        config = cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})
        if config.hidden_size % config.num_attention_heads:
            raise ValueError(
                f"qformer: hidden_size must be a multiple of num_attention_heads, got {config.hidden_size} and "
                f"{config.num_attention_heads}"
            )
        return config


class QFormer(nn.Module):
    """A Q-Former without its embeddings; its tensors have the names and the order of transformers.

    Args:
        config: Its sizes.
    """

    def __init__(self, config: QFormerConfig) -> None:
        super().__init__()
        self.config = config
        self.layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        layers = (_layer(config, number) for number in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=config.initializer_range)
                nn.init.zeros_(module.bias)

    @property
    def layers(self) -> Any:
        """The layers, first to last."""
        return self.encoder["layer"]

    def forward(self, hidden: Tensor, length: int, attention_mask: Tensor, images: Tensor) -> Tensor:
        """Runs all layers and returns the fused tokens, [B, length, H].

        In the last layer, only the outputs of the queries are computed; texts still serve as keys and values.

        Args:
            hidden: Embeddings of queries and texts after `layernorm`, [B, length + T, H].
            length: Number of query tokens.
            attention_mask: 1 for text tokens and 0 for padding, [B, T].
            images: The feature maps, normalized, [B, cells, width].
        """
        mask = functional.pad(attention_mask, (length, 0), value=1)[:, None, None].bool()
        hidden = functional.dropout(hidden, self.config.hidden_dropout_prob, self.training)
        *layers, last = self.layers
        for layer in layers:
            # Split once, because the gradient of each slice is a tensor of the full size.
            both = self._attention(layer["attention"], hidden, hidden, mask)
            queries, texts = both.split([length, hidden.shape[1] - length], dim=1)
            queries = self._queries(layer, queries, images)
            texts = self._feed_forward(layer["intermediate"], layer["output"], texts)
            hidden = torch.cat([queries, texts], dim=1)
        return self._queries(last, self._attention(last["attention"], hidden[:, :length], hidden, mask), images)

    def _queries(self, layer: Any, queries: Tensor, images: Tensor) -> Tensor:
        """Returns a layer's output for queries, from the output of its self-attention."""
        if "crossattention" in layer:
            queries = self._attention(layer["crossattention"], queries, images)
        return self._feed_forward(layer["intermediate_query"], layer["output_query"], queries)

    def _attention(self, layer: Any, hidden: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        config = self.config
        dropout = config.attention_probs_dropout_prob if self.training else 0.0
        seen = attended(layer["attention"], hidden, context, config.num_attention_heads, mask, dropout)
        return added(layer["output"], seen, hidden, config.hidden_dropout_prob if self.training else 0.0)

    def _feed_forward(self, first: Any, second: Any, hidden: Tensor) -> Tensor:
        between = functional.gelu(first["dense"](hidden))
        return added(second, between, hidden, self.config.hidden_dropout_prob if self.training else 0.0)


def _layer(config: QFormerConfig, number: int) -> nn.ModuleDict:
    width, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps

    def attention(context_width: int) -> nn.ModuleDict:
        return nn.ModuleDict({"attention": projections(width, context_width), "output": output(width, width, eps)})

    parts = {"attention": attention(width)}
    if number % config.cross_attention_frequency == 0:
        parts["crossattention"] = attention(config.encoder_hidden_size)
    for end in ("", "_query"):
        parts["intermediate" + end] = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        parts["output" + end] = output(inner, width, eps)
    return nn.ModuleDict(parts)
