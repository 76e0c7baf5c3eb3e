"""Late interaction in PyTorch, for CPUs and without Triton: one matrix product for all pairs of a query, or several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from retriever.codecs import byte_signs
from retriever.types import IntArray

_LONGEST = 2048
"""Most tokens per product, unless a single pair has more, so that its operands stay in the CPU's cache."""


def max_sim_pairs(
    queries: Tensor,
    tokens: Tensor,
    scales: Tensor | None,
    pairs: IntArray,
) -> Tensor:
    """Computes section scores; see `retriever.kernels.max_sim_pairs`, which checks the arguments.

    Products and sums are float32. int8 tokens are scaled after the product, which has N columns instead of H. Packed
    signs are never unpacked: the product of a byte with eight dimensions of a query is one of 256 values in a table.
    """
    unit, scores = queries.float(), queries.new_empty(int(pairs[2].sum()), dtype=torch.float32)
    tables = _sign_tables(unit) if tokens.dtype == torch.uint8 else None
    at = 0
    for query, rows in _runs(pairs, max(_LONGEST // max(tokens.shape[1], 1), 1)):
        if tables is not None:
            products = _sign_products(tables[query], tokens[rows])
        else:
            products = _products(unit[query], tokens[rows], None if scales is None else scales[rows])
        scores[at : at + len(products)] = products.amax(dim=1).sum(dim=-1)
        at += len(products)
    return scores


def _runs(pairs: IntArray, longest: int) -> Iterator[tuple[int, slice | Tensor]]:
    """Yields the rows of each query's consecutive pairs in order, at most `longest` at a time: a slice if adjacent."""
    queries, first, sizes = pairs
    rows = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    asked = np.repeat(queries, sizes)
    starts = [0, *(np.flatnonzero(np.diff(asked)) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        for begin in range(start, stop, longest):
            part = rows[begin : min(begin + longest, stop)]
            adjacent = part[-1] - part[0] + 1 == len(part) and (np.diff(part) == 1).all()
            yield int(asked[start]), slice(part[0], part[-1] + 1) if adjacent else torch.from_numpy(part)


def _products(query: Tensor, sections: Tensor, scales: Tensor | None) -> Tensor:
    """Returns the inner products of query tokens [N, H] with the tokens of sections [S, M, H], [S, M, N]."""
    products: Tensor = sections.float().flatten(0, 1) @ query.T
    if scales is not None:
        products *= scales.float().reshape(-1, 1)
    return products.view(*sections.shape[:2], -1)


def _sign_tables(queries: Tensor) -> Tensor:
    """Returns the products of queries [B, N, H] with each byte value at each position, [B, H / 8 * 256, N]."""
    parts = queries.unflatten(-1, (-1, 8)) * queries.shape[-1] ** -0.5  # a token has length 1
    return torch.einsum("bnwe,ve->bwvn", parts, byte_signs(queries.device).float()).flatten(1, 2)


def _sign_products(table: Tensor, sections: Tensor) -> Tensor:
    """Returns the products of a query's table [W * 256, N] with the packed tokens of sections [S, M, W], [S, M, N]."""
    places = torch.arange(0, len(table), 256, dtype=torch.int32, device=table.device)
    products: Tensor = functional.embedding_bag(sections.int().flatten(0, 1) + places, table, mode="sum")
    return products.view(*sections.shape[:2], -1)
