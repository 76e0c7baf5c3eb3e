"""A Q-Former's layers for inference: bit-identical to `QFormer`, with fewer operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.qformer_layers import QFormer


class FusedLayers:
    """The layers of a Q-Former that reads texts, without the last layer's text outputs, which step 2 does not use.

    Queries, keys and values of the same input are computed in one product, and a mask is only used if there is padding.
    The weights are those of `qformer` at construction; there are no gradients and no dropout.

    Args:
        qformer: The Q-Former.
    """

    def __init__(self, qformer: QFormer) -> None:
        *layers, last = qformer.layers
        heads = qformer.config.num_attention_heads
        self._layers = [_Layer(layer, heads) for layer in layers]
        self._last = _Layer(last, heads, last=True)

    def __call__(self, hidden: Tensor, length: int, attention_mask: Tensor, images: Tensor) -> Tensor:
        """Returns the fused tokens, [B, queries, H].

        Args:
            hidden: Embeddings of queries and texts, [B, length + T, H].
            length: Number of query tokens.
            attention_mask: 1 for text tokens and 0 for padding, [B, T].
            images: The feature maps, normalized, [B, cells, width].
        """
        mask = _additive_mask(attention_mask, length, hidden.dtype)
        for layer in self._layers:
            queries, texts = layer.attention(hidden, hidden, mask).split([length, hidden.shape[1] - length], dim=1)
            hidden = torch.cat([layer.seen(queries, images), layer.of_texts(texts)], dim=1)
        return self._last.seen(self._last.attention(hidden[:, :length], hidden, mask), images)


class _Layer:
    """The parts of one layer.

    Args:
        layer: A layer of a Q-Former.
        heads: Number of attention heads.
        last: Whether only queries attend.
    """

    def __init__(self, layer: Any, heads: int, last: bool = False) -> None:
        crossed = "crossattention" in layer
        self.attention = _Attention(layer["attention"], heads, itself=not last)
        self._crossattention = _Attention(layer["crossattention"], heads, itself=False) if crossed else None
        self._of_queries = _FeedForward(layer["intermediate_query"], layer["output_query"])
        self.of_texts = _FeedForward(layer["intermediate"], layer["output"])

    def seen(self, queries: Tensor, images: Tensor) -> Tensor:
        """Returns the layer's output for queries, [B, queries, H], from the output of its self-attention."""
        return self._of_queries(queries if self._crossattention is None else self._crossattention(queries, images))


class _Attention:
    """Attention, followed by the residual sum and the norm.

    Args:
        module: An attention of a layer.
        heads: Number of attention heads.
        itself: Whether this is self-attention.
    """

    def __init__(self, module: Any, heads: int, itself: bool) -> None:
        parts = module["attention"]
        self._heads = heads
        # projections of the attending input, and of the input that it attends to
        self._inner = None if itself else _joined([parts["query"]])
        self._outer = _joined([parts[name] for name in (["query"] if itself else []) + ["key", "value"]])
        self._end = _End(module["output"])

    def __call__(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        """Lets `x` [B, N, H] attend to `context` [B, M, W]; `mask` is added to the attention scores."""
        parts = functional.linear(context, *self._outer).chunk(3 if self._inner is None else 2, dim=-1)
        if self._inner is not None:
            parts = (functional.linear(x, *self._inner), *parts)
        queries, keys, values = (part.unflatten(-1, (self._heads, -1)).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(queries, keys, values, mask)
        return self._end(attended.transpose(1, 2).flatten(2), x)


class _FeedForward:
    """Two linear layers, followed by the residual sum and the norm."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._end = _joined([first["dense"]]), _End(second)

    def __call__(self, x: Tensor) -> Tensor:
        return self._end(functional.gelu(functional.linear(x, *self._first)), x)


class _End:
    """A linear layer, a residual sum and a norm."""

    def __init__(self, module: Any) -> None:
        norm: nn.LayerNorm = module["LayerNorm"]
        self._linear = _joined([module["dense"]])
        self._norm = (norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps)

    def __call__(self, x: Tensor, other: Tensor) -> Tensor:
        return functional.layer_norm(functional.linear(x, *self._linear).add_(other), *self._norm)


def _joined(parts: Sequence[nn.Linear]) -> tuple[Tensor, Tensor]:
    """Concatenates several linear layers into the weight and bias of one."""
    if len(parts) == 1:
        return parts[0].weight.detach(), parts[0].bias.detach()
    return torch.cat([part.weight for part in parts]).detach(), torch.cat([part.bias for part in parts]).detach()


def _additive_mask(attention_mask: Tensor, length: int, dtype: torch.dtype) -> Tensor | None:
    """Builds the additive attention mask, 0 or -inf, [B, 1, 1, length + T]; returns `None` if nothing is padded.

    Only a CPU checks for padding: on a GPU, the host would have to wait for the result.
    """
    if attention_mask.device.type == "cpu" and attention_mask.all():
        return None
    padding = functional.pad(attention_mask == 0, (length, 0))[:, None, None]
    return torch.zeros(padding.shape, dtype=dtype, device=padding.device).masked_fill_(padding, -torch.inf)
