"""Runs an XLM-RoBERTa classifier on a GPU: texts of any lengths lie one after the other, without padding between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.gpu import to_device
from retriever.models.graphs import Graph

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_KINDS = ("xlm-roberta", "roberta")
_HALF = (torch.bfloat16, torch.float16)
TOTALS = range(256, 8193, 256)
"""Tokens of the graphs. With more, an H200 computes a layer (0.4 ms) in the time of 30 launches, and has 10 of them."""
TOKENS_PER_TEXT = 64
"""A graph's tokens per text that it has room for."""


class PackedRoberta:
    """Computes the logits of a RoBERTa or XLM-RoBERTa classifier of transformers, with its weights.

    Results are those of the model itself but for rounding. Linear layers and norms need no padding, and attention reads
    only a text's own tokens. Query, key and value are one product: the model's three weights become views of one.
    With graphs, the padding after the texts is a text of its own: nothing else attends to it, and it may be longer than
    the kernel is told that texts are, so that some of it is not computed.

    Args:
        model: The classifier.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        base: Any = model.base_model
        self._embeddings: Any = base.embeddings
        self._classifier: Any = model.classifier
        self._heads: int = model.config.num_attention_heads
        self._layers = [(_joined(layer.attention.self), layer) for layer in base.encoder.layer]
        self._graphs: dict[int, Graph] = {}

    @torch.inference_mode()
    def use_cuda_graphs(self, longest: int) -> None:
        """Captures CUDA graphs for `TOTALS`, of texts of up to `longest` tokens; the largest first, for its memory."""
        for total in reversed(TOTALS):
            inputs = self.laid_out([[0] * TOKENS_PER_TEXT] * (total // TOKENS_PER_TEXT - 2), total)
            pool = self._graphs[TOTALS[-1]].pool if self._graphs else None
            self._graphs[total] = Graph(partial(self.logits, longest=longest), list(inputs), pool)

    def __call__(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Returns the logits [N] of texts given as token ids, without waiting for the device."""
        total = self._graphs and padded_total(sum(map(len, texts)), len(texts))
        if not total:
            return self.logits(*self.laid_out(texts), max(map(len, texts)))
        return self._graphs[total](self.laid_out(texts, total), len(texts))

    def laid_out(self, texts: Sequence[Sequence[int]], total: int = 0) -> tuple[Tensor, Tensor]:
        """Returns the arguments of `logits`, padded to `total` tokens if that is set: by empty texts and a last one."""
        lengths = [len(ids) for ids in texts]
        tokens = sum(lengths)
        if total:
            lengths += [0] * (total // TOKENS_PER_TEXT - len(lengths) - 1) + [total - tokens]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.zeros((2, total or tokens), np.int64)
        places[0, :tokens] = np.concatenate([np.array(ids, np.int64) for ids in texts])
        places[1] = np.arange(places.shape[1]) - ends[:-1].repeat(lengths) + self._embeddings.padding_idx + 1
        places[1, tokens:] = self._embeddings.padding_idx  # there may be more padding than positions
        device = self._embeddings.word_embeddings.weight.device
        return to_device(torch.from_numpy(places), device), to_device(torch.from_numpy(ends.astype(np.int32)), device)

    def logits(self, places: Tensor, ends: Tensor, longest: int) -> Tensor:
        """Returns the logits [N] of texts.

        Args:
            places: The texts' token ids and their positions, int64 [2, T].
            ends: Where each text begins, less than T, and the last one ends, int32 [N + 1].
            longest: Tokens of the longest text.
        """
        embeddings, (words, positions) = self._embeddings, places
        attention = flash_attention if places.is_cuda else plain_attention
        x = functional.embedding(words, embeddings.word_embeddings.weight)
        x = x + embeddings.token_type_embeddings.weight[0]
        x = embeddings.LayerNorm(x + functional.embedding(positions, embeddings.position_embeddings.weight))
        for (weight, bias), layer in self._layers:
            query, key, value = functional.linear(x, weight, bias).unflatten(1, (3, self._heads, -1)).unbind(1)
            attended, output = layer.attention.output, layer.output
            x = attended.LayerNorm(x + attended.dense(attention(query, key, value, ends, longest).flatten(1)))
            x = output.LayerNorm(x + output.dense(layer.intermediate(x)))
        logits: Tensor = self._classifier(x[ends[:-1].long()][:, None])
        return logits[:, 0]


def padded_total(tokens: int, texts: int) -> int | None:
    """Returns the smallest of `TOTALS` with room for texts of so many tokens and for padding, or `None`."""
    return next((total for total in TOTALS if total > tokens and total // TOKENS_PER_TEXT > texts), None)


def packed(model: PreTrainedModel) -> PackedRoberta | None:
    """Returns a model without padding if it is a RoBERTa in half precision on a GPU of Ampere or later, else `None`."""
    if model.config.model_type not in _KINDS or model.device.type != "cuda" or model.dtype not in _HALF:
        return None
    return PackedRoberta(model) if torch.cuda.get_device_capability(model.device) >= (8, 0) else None


def flash_attention(query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Attends among the tokens of each text on a GPU.

    Args:
        query: In half precision, [T, heads, H], as are `key` and `value`.
        key: As `query`.
        value: As `query`.
        ends: Where each text begins and the last one ends, int32 [N + 1].
        longest: Tokens of the longest text.
    """
    from torch.nn.attention.varlen import varlen_attn  # imports what only a GPU needs

    attended = varlen_attn(query, key, value, ends, ends, longest, longest)
    assert isinstance(attended, Tensor)  # no more was asked for
    return attended


def plain_attention(query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int) -> Tensor:
    """Computes what `flash_attention` does, one text after the other, anywhere and in any precision."""
    bounds = list(pairwise(ends.tolist()))
    texts = ([part[start:end].transpose(0, 1) for part in (query, key, value)] for start, end in bounds)
    return torch.cat([functional.scaled_dot_product_attention(q, k, v) for q, k, v in texts], dim=1).transpose(0, 1)


def _joined(attention: Any) -> tuple[Tensor, Tensor]:
    """Returns one weight and one bias for query, key and value, of which the layers' own become views."""
    layers: list[nn.Linear] = [attention.query, attention.key, attention.value]
    weight = torch.cat([layer.weight.data for layer in layers])
    bias = torch.cat([layer.bias.data for layer in layers])
    for layer, own_weight, own_bias in zip(layers, weight.chunk(3), bias.chunk(3), strict=True):
        layer.weight.data, layer.bias.data = own_weight, own_bias
    return weight, bias
