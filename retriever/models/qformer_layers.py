"""The forward pass of a Q-Former's layers, without the outputs that step 2 does not use."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def run_layers(encoder: Any, length: int, hidden: Tensor, attention_mask: Tensor, images: Tensor) -> Tensor:
    """Runs all layers and returns the fused tokens, [B, length, H], as transformers computes them.

    In the last layer, only the outputs of the queries are computed.

    Args:
        encoder: The encoder of a transformers Q-Former.
        length: Number of query tokens.
        hidden: Embeddings of queries and texts, [B, length + T, H].
        attention_mask: 1 for text tokens and 0 for padding, [B, T].
        images: The feature maps, normalized, [B, cells, width].
    """
    mask = functional.pad(attention_mask, (length, 0), value=1)[:, None, None].bool()
    *layers, last = encoder.layer
    for layer in layers:
        hidden = _outputs(layer, hidden, mask, images, length)
    return _last_queries(last, hidden, mask, images, length)


def _outputs(layer: Any, hidden: Tensor, mask: Tensor, images: Tensor, length: int) -> Tensor:
    """Returns the outputs of a Q-Former layer, of which the first `length` are queries.

    Splits once where transformers slices twice, because the gradient of each slice is a tensor of the full size.
    """
    queries, texts = layer.attention(hidden, mask).split([length, hidden.shape[1] - length], dim=1)
    if layer.has_cross_attention:
        queries = layer.crossattention(queries, encoder_hidden_states=images)
    return torch.cat([layer.feed_forward_chunk_query(queries), layer.feed_forward_chunk(texts)], dim=1)


def _last_queries(layer: Any, hidden: Tensor, mask: Tensor, images: Tensor, length: int) -> Tensor:
    """Returns the first `length` outputs of a Q-Former layer, the queries, without computing those of texts.

    Texts still serve as keys and values. This saves most of one layer's work.
    """
    queries = hidden[:, :length]
    attended, _ = layer.attention.attention(queries, encoder_hidden_states=hidden, encoder_attention_mask=mask)
    queries = layer.attention.output(attended, queries)
    if layer.has_cross_attention:
        queries = layer.crossattention(queries, encoder_hidden_states=images)
    fused: Tensor = layer.feed_forward_chunk_query(queries)
    return fused
