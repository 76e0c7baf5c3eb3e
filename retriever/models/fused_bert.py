"""BERT on a CPU, for inference: texts of any lengths in one pass, with fewer operations than `Bert`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.bert import Bert
from retriever.models.precision import Int8Linear, onednn_computes

STEP = 16
"""Texts are padded to multiples of it: for lengths in between, PyTorch's attention takes up to twice as long."""
TOKENS = 4096
"""Maximum number of tokens that go through the model at once."""


class FusedBert:
    """Computes what a `Bert` does, with its weights at construction.

    The tokens of all texts are rows of one matrix, so that a pass reads every weight once. Texts attend side by side if
    their padded lengths are equal. Query, key and value are one product. For a single short text, reading the weights
    is most of the time: sums inside the products, huge pages and products of int8 weights gained nothing.

    Args:
        model: The model, on a CPU. Its embeddings are shared, its linear layers copied.
        dtype: bfloat16, float32, or int8, which computes products by `Int8Linear`; by default the model's.
    """

    def __init__(self, model: Bert, dtype: torch.dtype | None = None) -> None:
        embeddings: Any = model.embeddings
        layers: Any = model.encoder["layer"]
        names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
        self._words, positions, kinds = (embeddings[name].weight.detach() for name in names)
        self._places = (positions[:, None].float() + kinds).flatten(0, 1)  # of each position as each type
        self._kinds, self.dimension = len(kinds), model.config.hidden_size
        precision = dtype or self._words.dtype
        self._dtype = torch.float32 if precision == torch.int8 else precision
        self._norm = _norm(embeddings["LayerNorm"], torch.float32)
        self._layers = [_Layer(layer, model.config.num_attention_heads, precision, self._dtype) for layer in layers]

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
        """Returns the last layer's output for the tokens of each text, [T, D].

        Args:
            texts: Token ids, at least one per text.
            types: The type of each token; `None` if all are of type 0.
        """
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        outputs = [torch.empty(0)] * len(texts)
        while order:
            most = max(TOKENS // len(texts[order[-1]]), 1)
            order, group = order[:-most], order[-most:]
            rows = self._pass([texts[i] for i in group], None if types is None else [types[i] for i in group])
            for number, row in zip(group, rows, strict=True):
                outputs[number] = row
        return outputs

    @torch.inference_mode()
    def vectors(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Returns the mean of the last layer's output for each text, L2-normalized, float32 [N, D]."""
        means = [rows.float().mean(0) for rows in self(texts)]
        return functional.normalize(torch.stack(means), dim=1) if means else torch.empty(0, self.dimension)

    def _pass(self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None) -> list[Tensor]:
        """Computes texts in order of their lengths."""
        lengths = np.array([len(text) for text in texts])
        widths = -(-lengths // STEP) * STEP
        starts = widths.cumsum() - widths
        places = np.arange(widths.sum()) - starts.repeat(widths)
        kept = places < lengths.repeat(widths)
        inputs = np.zeros((2, len(places)), np.int64)  # rows of both tables
        inputs[0, kept], inputs[1, kept] = np.concatenate(texts), places[kept] * self._kinds
        if types is not None:
            inputs[1, kept] += np.concatenate(types)
        words, at = torch.from_numpy(inputs)
        embedded = functional.embedding(words, self._words) + functional.embedding(at, self._places)
        hidden = torch.layer_norm(embedded, *self._norm).to(self._dtype)
        mask = torch.zeros(len(places), dtype=self._dtype).masked_fill_(torch.from_numpy(~kept), -torch.inf)
        blocks = [(len(list(same)), 1, 1, width) for width, same in groupby(widths.tolist())]
        parts = mask.split([count * width for count, *_, width in blocks])
        masks = [part.view(shape) for part, shape in zip(parts, blocks, strict=True)]
        for layer in self._layers:
            hidden = layer(hidden, masks)
        return [hidden[start : start + length] for start, length in zip(starts, lengths, strict=True)]


class _Layer:
    def __init__(self, layer: Any, heads: int, precision: torch.dtype, dtype: torch.dtype) -> None:
        attention, output = layer["attention"], layer["output"]
        self._heads = heads
        self._projected = _product([attention["self"][name] for name in ("query", "key", "value")], precision)
        self._attended = _product([attention["output"]["dense"]], precision)
        self._widened = _product([layer["intermediate"]["dense"]], precision, gelu=True)
        self._narrowed = _product([output["dense"]], precision)
        self._norms = [_norm(part["LayerNorm"], dtype) for part in (attention["output"], output)]

    def __call__(self, hidden: Tensor, masks: Sequence[Tensor]) -> Tensor:
        """Returns the layer's output [N, D]; each mask [texts, 1, 1, T] belongs to the next `texts * T` rows."""
        parts = self._projected(hidden).split_with_sizes([mask.numel() for mask in masks])
        seen = [self._attention(rows, mask) for rows, mask in zip(parts, masks, strict=True)]
        hidden = self._attended(seen[0] if len(seen) == 1 else torch.cat(seen)).add_(hidden)
        hidden = torch.layer_norm(hidden, *self._norms[0])
        return torch.layer_norm(self._narrowed(self._widened(hidden)).add_(hidden), *self._norms[1])

    def _attention(self, rows: Tensor, mask: Tensor) -> Tensor:
        parts = rows.view(mask.shape[0], mask.shape[3], 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        found = functional.scaled_dot_product_attention(query, key, value, mask)
        return found.transpose(1, 2).reshape(rows.shape[0], -1)


def _product(layers: Sequence[nn.Linear], precision: torch.dtype, gelu: bool = False) -> Callable[[Tensor], Tensor]:
    """Returns linear layers with the same input as one product, with the activation that follows."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    bias = torch.cat([layer.bias.detach() for layer in layers])
    if precision == torch.bfloat16 and onednn_computes("cpu", precision):
        weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(precision), None)
        fused, bias = torch.ops.mkldnn._linear_pointwise.default, bias.to(precision)
        activation = "gelu" if gelu else "none"
        return lambda x: fused(x, weight, bias, activation, [], "none")  # the last: no approximation
    product: Callable[[Tensor], Tensor] = (
        Int8Linear(weight, bias)
        if precision == torch.int8
        else partial(functional.linear, weight=weight.to(precision), bias=bias.to(precision))
    )
    return (lambda x: functional.gelu(product(x))) if gelu else product


def _norm(norm: nn.LayerNorm, dtype: torch.dtype) -> tuple[tuple[int, ...], Tensor, Tensor, float]:
    weight, bias = (part.detach().to(dtype, copy=True) for part in (norm.weight, norm.bias))
    return norm.normalized_shape, weight, bias, norm.eps
